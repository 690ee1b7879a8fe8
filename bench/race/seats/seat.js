// What seat.py is for contestants in Python: `node seat.js MODULE VERB [number …]` sends jobs and prints what it took.
//
// A module exports `opened()`, which gives an object with send(number, holdS), sendMany(numbers), call(number) and
// close(). The verbs, their numbers and their answers are those of seat.py.

"use strict";

const fs = require("node:fs");
const path = require("node:path");

const CHUNK = 1000;
const WARM = 100;

const range = (start, end) => Array.from({ length: end - start }, (_, index) => start + index);
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));
const cpuS = () => process.cpuUsage().user / 1e6 + process.cpuUsage().system / 1e6;

async function timed(send, jobs, step, limitS) {
  const wall = performance.now();
  const cpu = cpuS();
  let done = 0;
  while (done < jobs && performance.now() - wall < limitS * 1000) {
    await send(done);
    done += step;
  }
  return { jobs: done, wall_s: (performance.now() - wall) / 1000, cpu_s: cpuS() - cpu };
}

const verbs = {
  async fill(seat, jobs) {
    const cpu = cpuS();
    for (let start = 0; start < jobs; start += CHUNK) {
      await seat.sendMany(range(start, Math.min(start + CHUNK, jobs)));
    }
    return { cpu_s: cpuS() - cpu };
  },

  async sends(seat, many, ones, limitS) {
    for (let number = 0; number < WARM; number++) await seat.send(number);
    const chunk = Math.min(CHUNK, many);
    return {
      many: await timed((start) => seat.sendMany(range(start, start + chunk)), many, chunk, limitS),
      ones: await timed((number) => seat.send(number), ones, 1, limitS),
    };
  },

  async paced(seat, jobs, apartS) {
    const sentNs = [];
    await seat.send(jobs); // opens the store; it is not counted
    for (let number = 0; number < jobs; number++) {
      await pause(apartS);
      sentNs.push(Number(process.hrtime.bigint()));
      await seat.send(number);
    }
    return { sent_ns: sentNs };
  },

  async calls(seat, jobs, apartS) {
    const tookNs = [];
    await seat.call(jobs);
    for (let number = 0; number < jobs; number++) {
      await pause(apartS);
      const began = process.hrtime.bigint();
      const result = await seat.call(number);
      tookNs.push(Number(process.hrtime.bigint() - began));
      if (result !== number) throw new Error(`The result of job ${number} is ${result}.`);
    }
    return { took_ns: tookNs };
  },

  async hold(seat, holdS) {
    await seat.send(0, holdS);
    return {};
  },
};

function versions() {
  const folder = process.env.NODE_PATH;
  const files = fs.globSync(["*/package.json", "@*/*/package.json"], { cwd: folder });
  const found = files.map((file) => JSON.parse(fs.readFileSync(path.join(folder, file))));
  return { packages: Object.fromEntries(found.map(({ name, version }) => [name, version])) };
}

async function main(module, verb, ...numbers) {
  if (verb === "versions") return versions();
  const seat = require(`./${module}.js`).opened();
  try {
    return await verbs[verb](seat, ...numbers.map(Number));
  } finally {
    await seat.close();
  }
}

main(...process.argv.slice(2)).then(
  (answer) => console.log(JSON.stringify(answer)),
  (error) => {
    console.error(`${error}`); // the last line is what the race tells
    process.exit(1);
  },
);
