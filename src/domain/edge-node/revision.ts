import type { MicroserviceView } from '../../wire/index.ts';

/**
 * Revision of a view: a versioned hash of its non-default fields that need a new container. Config, schedule, rebuild
 * orders and the items of catalogs take no part; nor does the order of env, ports, volumes and the like.
 */
export function revisionOf(_view: MicroserviceView, _key?: string): string {
  throw new Error('not written yet');
}
