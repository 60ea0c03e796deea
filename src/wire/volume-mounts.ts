import { z } from 'zod';
import { BOUNDS } from '../api/bounds.ts';

/**
 * A volume mount with the content of its Secret or ConfigMap (docs/spec/agent-channel.md#volume-mounts). The list that a
 * node gets is complete: the agent removes what it does not name.
 */
export const volumeMountViewSchema = z.object({
  uuid: z.string().max(64),
  name: z.string().max(BOUNDS.anyName),
  /** counts the changes of the volume mount and of its content */
  version: z.number().int().min(0),
  type: z.enum(['secret', 'configMap']),
  /** base64 by key; a key with slashes is a path below the mount */
  data: z.record(z.string().max(BOUNDS.path), z.string()).default({}),
  /** ours: the Secret or ConfigMap does not exist now; the agent keeps the content that it has */
  sourceMissing: z.boolean().default(false),
});
export type VolumeMountView = z.infer<typeof volumeMountViewSchema>;
