// BullMQ: `node bullmq_redis.js` is its worker; RACE_CONCURRENCY says how many jobs it has in work at a time, and
// RACE_PROCESSES how many processes there are. Results are kept with the completed jobs, for a day.

"use strict";

const cluster = require("node:cluster");
const { Queue, QueueEvents, Worker } = require("bullmq");
const marks = require("./marks.js");

const NAME = "race";
const { hostname: host, port } = new URL(process.env.RACE_STORE);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const kept = { removeOnComplete: { age: 86400 } };

const data = (number, holdS) => ({ number, text: marks.TEXT, holdS });

// What seat.js asks of a contestant.
exports.opened = function opened() {
  const queue = new Queue(NAME, { connection });
  let events;
  return {
    async send(number, holdS = 0) {
      await queue.add("work", data(number, holdS), kept);
    },
    async sendMany(numbers) {
      await queue.addBulk(numbers.map((number) => ({ name: "work", data: data(number, 0), opts: kept })));
    },
    async call(number) {
      if (!events) {
        events = new QueueEvents(NAME, { connection, lastEventId: "0-0" }); // by default it may miss the first end
        await events.waitUntilReady();
      }
      const job = await queue.add("work", data(number, 0), kept);
      return await job.waitUntilFinished(events, 30_000);
    },
    async close() {
      await events?.close();
      await queue.close();
    },
  };
};

function main() {
  const processes = Number(process.env.RACE_PROCESSES);
  if (cluster.isPrimary && processes > 1) {
    for (let each = 0; each < processes; each++) cluster.fork();
    return;
  }
  const worker = new Worker(NAME, async (job) => marks.work(job.data.number, job.data.holdS), {
    connection,
    concurrency: Number(process.env.RACE_CONCURRENCY),
  });
  worker.on("error", (error) => console.error(error));
}

if (require.main === module) main();
