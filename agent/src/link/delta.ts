import { MEASUREMENTS, type MicroserviceStatus, type StatusReport } from '../../../src/wire/agent.ts';
import type { ArtifactStatus } from '../../../src/wire/artifacts.ts';

const MEASURES: ReadonlySet<keyof StatusReport> = new Set(MEASUREMENTS);
const ARTIFACTS: ReadonlySet<keyof StatusReport> = new Set(['modelStatus', 'knowledgeStatus']);

/**
 * The part of a report that was not sent yet. Microservices are sent as the whole list or not at all. With `measurements`
 * these are compared as well; a small change of one is ignored.
 */
export function delta(sent: StatusReport, report: StatusReport, measurements: boolean): StatusReport {
  const changed: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(report) as [keyof StatusReport, unknown][]) {
    if (value === undefined || (!measurements && MEASURES.has(key))) continue;
    const before = sent[key];
    const same =
      key === 'microserviceStatus'
        ? sameMicroservices(before as MicroserviceStatus[] | undefined, value as MicroserviceStatus[], measurements)
        : ARTIFACTS.has(key) && !measurements
          ? JSON.stringify(withoutProgress(before)) === JSON.stringify(withoutProgress(value))
          : typeof value === 'number' && MEASURES.has(key)
            ? isNear(before as number | undefined, value)
            : JSON.stringify(before) === JSON.stringify(value);
    if (!same) changed[key] = value;
  }
  return changed as StatusReport;
}

function sameMicroservices(
  before: readonly MicroserviceStatus[] | undefined,
  now: readonly MicroserviceStatus[],
  measurements: boolean,
): boolean {
  if (!before || before.length !== now.length) return false;
  const known = new Map(before.map((item) => [item.id, item]));
  return now.every((item) => {
    const old = known.get(item.id);
    if (!old || JSON.stringify(withoutUsage(old)) !== JSON.stringify(withoutUsage(item))) return false;
    if (!measurements) return true;
    return isNear(old.memoryUsage, item.memoryUsage, 1024 * 1024) && isNear(old.cpuUsage, item.cpuUsage, 2);
  });
}

function withoutUsage({ memoryUsage, cpuUsage, ...rest }: MicroserviceStatus): unknown {
  return rest;
}

/** How far pulls are is a measurement. */
function withoutProgress(list: unknown): unknown {
  return (list as ArtifactStatus[] | undefined)?.map(({ percentage, ...rest }) => rest);
}

/** Whether a measurement changed by less than a tenth, or by less than `least`. */
function isNear(before: number | undefined, now: number | undefined, least = 0): boolean {
  if (before === undefined || now === undefined) return before === now;
  const move = Math.abs(now - before);
  return move <= Math.max(least, Math.abs(before) / 10);
}
