/** Rejects when the signal aborts first; what was waited for then ends by `abandon`. */
export async function untilAborted<T>(promise: Promise<T>, signal: AbortSignal, abandon = () => {}): Promise<T> {
  let stop = () => {};
  const aborted = new Promise<never>((_, reject) => {
    stop = () => {
      abandon();
      reject(signal.reason);
    };
    signal.addEventListener('abort', stop);
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
