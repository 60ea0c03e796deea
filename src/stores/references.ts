import { ANNOTATIONS } from '../api/names.ts';
import type { ConfigMap, Secret } from '../api/resources.ts';

/** v3 name of a core object. */
export const textNameOf = (object: Secret | ConfigMap) =>
  object.metadata.annotations?.[ANNOTATIONS.name] ?? object.metadata.name;
