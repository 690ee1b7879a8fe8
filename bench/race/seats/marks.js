// What every job of the race does, as marks.py says it: 16 bytes, its number and the time it started.
// The clock is the machine's monotonic one, the same as that of Python.

"use strict";

const fs = require("node:fs");

let file;

exports.TEXT = "x".repeat(173);

exports.work = async function work(number, holdS) {
  const mark = Buffer.alloc(16);
  mark.writeBigInt64LE(BigInt(number), 0);
  mark.writeBigInt64LE(process.hrtime.bigint(), 8);
  file ??= fs.openSync(process.env.RACE_MARKS, "a", 0o644);
  fs.writeSync(file, mark);
  if (holdS) await new Promise((resolve) => setTimeout(resolve, holdS * 1000));
  return number;
};
