import { LOCAL_APPLICATION } from '../../../src/api/names.ts';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import { newLocalUuid } from '../domain/local-uuid.ts';
import { makeView } from '../supervise/plan/_util.ts';
import type { LocalRow } from './row.ts';

/** Builders for tests; what a test does not name is a sensible default. */

const TIME = '2026-11-27T00:00:00.000Z';

/** The row of a microservice that was deployed on the machine. */
export function makeRow(change: Partial<LocalRow> = {}, view: Partial<MicroserviceView> = {}): LocalRow {
  const { uuid = newLocalUuid(), application = LOCAL_APPLICATION, name = 'web' } = change;
  return {
    ...{ uuid, origin: 'deployed', application, name, manifest: 'kind: Microservice', sourceName: 'test' },
    view: makeView({ ...view, uuid, application, name }),
    desiredState: 'running',
    ...{ generation: 1, createdAt: TIME, updatedAt: TIME },
    ...change,
  };
}

/** The row of a microservice that a controller left to the machine. */
export function makeKeptRow(uuid: string, change: Partial<LocalRow> = {}): LocalRow {
  return makeRow({ uuid, origin: 'kept', application: 'shop', name: 'kept', ...change });
}
