import { CONTAINER_LABELS } from '../../../src/api/names.ts';
import { LABEL_REBUILD_COUNT, STAMPS } from './names.ts';

/** What the labels say of a container; the agent set them when it made it. */
export function fromLabels(labels: Record<string, string> = {}) {
  return {
    uuid: labels[CONTAINER_LABELS.uuid] ?? '',
    application: labels[CONTAINER_LABELS.application] ?? '',
    microservice: labels[CONTAINER_LABELS.microservice] ?? '',
    digest: labels[CONTAINER_LABELS.digest] ?? '',
    revision: labels[CONTAINER_LABELS.revision] ?? '',
    rebuildCount: Number(labels[LABEL_REBUILD_COUNT]) || 0,
    generation: Number(labels[CONTAINER_LABELS.generation]) || 0,
    stamps: Object.fromEntries(STAMPS.flatMap((name) => (labels[name] === undefined ? [] : [[name, labels[name]]]))),
  };
}
