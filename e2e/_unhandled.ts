/**
 * Loaded into a program by `--import`: the first SIGUSR2 rejects a promise that nothing awaits, the second one throws an
 * exception that nothing catches. `SKERRY_TEST_REJECTS` rejects at the first output instead, for commands that end at once.
 */
let signals = 0;
process.on('SIGUSR2', () => {
  const error = new Error('made up by the test', { cause: new Error('connect ECONNREFUSED') });
  if (++signals === 1) void Promise.reject(error);
  else
    setImmediate(() => {
      throw error;
    });
});
if (process.env.SKERRY_TEST_REJECTS) {
  const write = process.stdout.write;
  process.stdout.write = (...args: unknown[]) => {
    void Promise.reject(new Error('made up by the test', { cause: new Error('connect ECONNREFUSED') }));
    return write.apply(process.stdout, args as never);
  };
}
