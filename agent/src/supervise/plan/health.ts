import { printable } from '../../../../src/api/printable.ts';
import type { ReportedCheck } from '../../domain/record.ts';
import { type Container, runKey } from '../../engine-port/container.ts';

/** Characters of the output of a health check that are reported. */
const OUTPUT_LENGTH = 200;
/** A change of the exit code alone is reported once in this time, ms. */
const CODE_CHANGE_MS = 60_000;

/**
 * The failing health check that is reported of a running container; undefined while none fails. Programs write something
 * else each time (a time, a port, an id), and each report of another text costs a write of the node's status. So the first
 * text stays until the health changes, or until the exit code does, at most once a minute. Pure.
 */
export function reportedCheck(
  before: ReportedCheck | undefined,
  container: Container,
  now: number,
): ReportedCheck | undefined {
  const { health, failedCheck } = container;
  if (!failedCheck || health === undefined || health === 'healthy') return undefined;
  const key = runKey(container);
  const { exitCode } = failedCheck;
  const isSame = before?.key === key && before.health === health;
  if (isSame && (before.exitCode === exitCode || now - before.at < CODE_CHANGE_MS)) return before;
  return { key, health, exitCode, message: checkText(failedCheck), at: now };
}

/** Exit code and output as one line. Engines say -1 for a check that did not end in its time; then the output is theirs. */
function checkText({ exitCode, output }: NonNullable<Container['failedCheck']>): string {
  const text = firstOf(printable(firstOf(output.trim().replace(/\s+/g, ' '))));
  const code = exitCode < 0 ? '' : `exit code ${exitCode}`;
  return [code, text].filter(Boolean).join(': ') || 'it did not end';
}

const firstOf = (text: string): string => [...text].slice(0, OUTPUT_LENGTH).join('');
