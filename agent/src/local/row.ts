import { z } from 'zod';
import { volumeMappingSchema } from '../../../src/api/container/index.ts';
import { microserviceViewSchema, registryViewSchema } from '../../../src/wire/agent.ts';

/** A view with the paths that its container binds of the agent's files, as it was when the microservice was left to the machine. */
const viewSchema = microserviceViewSchema.extend({
  volumeMappings: z.array(volumeMappingSchema.extend({ path: z.string().optional() })).default([]),
});

/** What a row has besides when it is the control plane of the machine. */
const controlPlaneSchema = z.object({
  /** of its manifest */
  name: z.string(),
  namespace: z.string(),
  /** true: an apply has begun, and whether it succeeds is not known yet; false: it failed, nothing ran before, and it is not ready since */
  isApplying: z.boolean().optional(),
  /** what ran before this apply, and runs again when it fails */
  former: z
    .object({
      ...{ view: viewSchema, manifest: z.string(), name: z.string(), namespace: z.string() },
      /** absent: it ran */
      desiredState: z.literal('stopped').optional(),
    })
    .optional(),
  /** the node as which it was registered at its controller */
  registeredAs: z.string().optional(),
});

/** A microservice of the machine itself. No other copy says how it is wanted. */
export const localRowSchema = z.object({
  uuid: z.string(),
  /** kept: a controller placed it, and left it to the machine when its membership ended */
  origin: z.enum(['deployed', 'kept', 'controlplane']),
  application: z.string(),
  name: z.string(),
  /** who deployed it, in the words of that program */
  sourceName: z.string().optional(),
  /** the manifest as it was deployed */
  manifest: z.string().optional(),
  /** absent: only its container is known */
  view: viewSchema.optional(),
  controlPlane: controlPlaneSchema.optional(),
  /** of a kept one: where its image comes from, since later controllers have other registries */
  registry: registryViewSchema.optional(),
  /** deleted: the row stays until no container of it is left */
  desiredState: z.enum(['running', 'stopped', 'deleted']),
  /** raised with each other view */
  generation: z.int(),
  /** RFC 3339 */
  createdAt: z.string(),
  updatedAt: z.string(),
  deletedAt: z.string().optional(),
});
export type LocalRow = z.infer<typeof localRowSchema>;
