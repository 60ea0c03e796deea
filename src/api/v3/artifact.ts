import type { z } from 'zod';
import { BOUNDS } from '../bounds.ts';
import {
  AGE_COLUMN,
  BASIC_CONDITIONS,
  type CustomResource,
  conditionsSchema,
  IDENTITIES,
  nodesSchema,
  observedGenerationSchema,
  READY_COLUMN,
  type ResourceDefinition,
} from '../meta.ts';
import { type Rule, withRules } from '../rules.ts';
import { atomicList, integerOrText, object, text } from '../schema.ts';

/**
 * What Model and Knowledge have in common: an artifact lives in a registry, nodes pull it, and microservices bind it
 * (docs/spec/workloads.md#models-and-knowledge).
 */

export { ARTIFACT_KINDS, type ArtifactKind } from '../artifact-kinds.ts';

const identity = IDENTITIES.uuid;

/** Parts joined by `/`; no part is `.` or `..`, or begins with a dot. */
const REPO_PATTERN = '^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$';
const REVISION_PATTERN = '^([A-Za-z0-9_][A-Za-z0-9_.+@:-]*(/[A-Za-z0-9_][A-Za-z0-9_.+@:-]*)*)?$';
/** A relative path without parts `.` and `..`; parts may have `*` and `?`. */
const FILE_PART = '([^/.\\\\][^/\\\\]*|\\.[^/.\\\\][^/\\\\]*|\\.\\.[^/\\\\]+)';
const FILE_PATTERN = `^${FILE_PART}(/${FILE_PART})*$`;

const registryReference = integerOrText(BOUNDS.name).optional();
const oneRegistry: Rule = {
  rule: 'exactlyOne',
  of: ['registryId', 'registry'],
  message: 'exactly one of registryId and registry names the registry',
};

const specSchema = <F extends z.ZodType<string>>(what: string, format: F) =>
  withRules(
    object({
      ...identity.asked,
      repo: text({
        min: 1,
        max: BOUNDS.url,
        pattern: REPO_PATTERN,
        expects: 'a repository without scheme and host, such as team/tiny',
      }).describe('Repository in the registry, without scheme and host.'),
      revision: text({ max: BOUNDS.name, pattern: REVISION_PATTERN, expects: 'a tag, branch, digest or commit' })
        .optional()
        .describe(
          'Tag or digest (sha256:...) in a registry of type oci, latest when absent; branch, tag or commit on a hub, main when absent.',
        ),
      registryId: registryReference.describe('Registry that it is pulled from: its id or its name.'),
      registry: registryReference.describe('Other spelling of registryId.'),
      files: atomicList(
        text({ min: 1, max: BOUNDS.path, pattern: FILE_PATTERN, expects: 'a relative path without . and .. as parts' }),
        BOUNDS.artifactFiles,
      )
        .optional()
        .describe('Files to pull from a hub, as paths in which * ** and ? are wildcards.'),
      format: format.optional().describe(`Format of the ${what}.`),
      nodes: nodesSchema,
    }),
    [oneRegistry],
  );

const statusSchema = object({
  observedGeneration: observedGenerationSchema,
  ...identity.recorded,
  conditions: conditionsSchema.optional(),
  nodeCount: text({ max: 32 })
    .optional()
    .describe('Nodes on which the present content is ready, of all nodes that are to have it, for example 3/5.'),
});

interface ArtifactNames {
  kind: string;
  plural: string;
  singular: string;
  shortNames: readonly string[];
  description: string;
}

/** The definition of a kind of artifacts. */
export const artifactResource = <F extends z.ZodType<string>>(names: ArtifactNames, format: F) =>
  ({
    ...names,
    spec: specSchema(names.singular, format),
    status: statusSchema.default({ observedGeneration: -1 }),
    identity,
    hasLabelNames: true,
    conditions: BASIC_CONDITIONS,
    selectableFields: ['.spec.uuid', '.status.uuid'],
    printerColumns: [
      READY_COLUMN,
      {
        name: 'Nodes',
        type: 'string',
        jsonPath: '.status.nodeCount',
        description: 'Nodes on which it is ready, of all that are to have it.',
      },
      { name: 'Repo', type: 'string', jsonPath: '.spec.repo' },
      { name: 'Revision', type: 'string', jsonPath: '.spec.revision' },
      AGE_COLUMN,
      { name: 'Format', type: 'string', jsonPath: '.spec.format', priority: 1 },
      { name: 'UUID', type: 'string', jsonPath: '.status.uuid', priority: 1 },
      { name: 'Message', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1 },
    ],
  }) as const satisfies ResourceDefinition;

/** A Model or a Knowledge. */
export type Artifact = CustomResource<z.infer<ReturnType<typeof specSchema>>, z.infer<typeof statusSchema>>;
