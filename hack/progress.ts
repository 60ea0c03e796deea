/** Logs what a step does, one line per call. */
export type Log = (line: string) => void;

/**
 * A log whose lines have the seconds since its start, so that a reader sees how long each step takes:
 * `[  1.4s] kube-apiserver is ready`.
 */
export function startClock(write: (text: string) => void = (text) => process.stdout.write(text)): Log {
  const start = performance.now();
  return (line) => write(`[${((performance.now() - start) / 1000).toFixed(1).padStart(6)}s] ${line}\n`);
}

/** Formats milliseconds for people: `420ms`, `3.2s`, `2m05s`. */
export function formatDuration(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.round(milliseconds)}ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)}s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)}m${String(whole % 60).padStart(2, '0')}s`;
}
