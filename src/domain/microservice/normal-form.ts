import type { Architecture } from '../../api/names.ts';
import type { ContainerSpec, MicroserviceEntry } from '../../api/v3/index.ts';

export type ImageArchitecture = Exclude<Architecture, 'auto'>;

/** Container settings with one spelling per field; empty text, lists and maps are absent. */
export type NormalContainer = Omit<ContainerSpec, 'cmd'>;

/** An entry with one spelling per field, so that nothing behind it knows an alias. Empty means absent. */
export interface NormalEntry {
  name: string;
  uuid?: string;
  isActivated: boolean;
  agent?: { name?: string; uuid?: string };
  images: Partial<Record<ImageArchitecture, string>>;
  /** a number is an id, text a name; absent: the public hub */
  registry?: number | string;
  catalogId?: number | string;
  config?: unknown;
  schedule: number;
  container: NormalContainer;
  models?: MicroserviceEntry['models'];
  knowledge?: MicroserviceEntry['knowledge'];
  template?: MicroserviceEntry['template'];
  serviceAccount?: MicroserviceEntry['serviceAccount'];
  busConfig?: MicroserviceEntry['busConfig'];
}

/** The one normal form of an entry: aliases resolved, empty is absent, defaults are filled in. */
export function normalEntry(_entry: MicroserviceEntry): NormalEntry {
  throw new Error('not written yet');
}

/**
 * Image of an entry for an architecture id. Id 0 (not known yet) takes the image of the lowest architecture id; absent
 * when there is none.
 */
export function imageFor(_entry: NormalEntry, _archId: number): string | undefined {
  throw new Error('not written yet');
}
