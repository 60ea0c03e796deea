import { z } from 'zod';
import { BOUNDS } from '../bounds.ts';
import { containerSchema } from '../container/schema.ts';
import { dottedName, uuidSchema } from '../meta.ts';
import { type Rule, withRules } from '../rules.ts';
import { anyJson, closedObject, integer, integerOrText, mapList, object, oneOf, text } from '../schema.ts';

/**
 * A microservice: an entry of its Application, as a container is of a Pod. The form is that of the v3 YAML kind
 * (docs/spec/workloads.md#microservice-entry), aliases included; domain/microservice reads one normal form. The
 * container fields are a table of their own, in api/container.
 *
 * No field has a default in the CRD: a value that the API server adds to an item of a list looks to client-side apply and
 * to GitOps tools like an edit of the list. The normal form fills in what is absent.
 */

export const imageReference = text({
  min: 1,
  max: BOUNDS.images,
  pattern: '^[A-Za-z0-9][A-Za-z0-9._:/@-]*$',
  expects: 'an image reference such as registry.example/team/app:1.2',
});

const agentRefSchema = withRules(
  object({
    name: text({ min: 1, max: BOUNDS.anyName }).optional().describe('Name of the EdgeNode.'),
    uuid: uuidSchema.optional().describe('uuid of the EdgeNode.'),
  }),
  [{ rule: 'exactlyOne', of: ['name', 'uuid'], message: 'agent needs exactly one of name and uuid' }],
);

const imagesSchema = withRules(
  object({
    amd64: imageReference.optional().describe('Image for amd64 nodes.'),
    x86: imageReference.optional().describe('Older spelling of amd64.'),
    arm64: imageReference.optional().describe('Image for arm64 nodes.'),
    riscv64: imageReference.optional().describe('Image for riscv64 nodes.'),
    riscv: imageReference.optional().describe('Older spelling of riscv64.'),
    arm: imageReference.optional().describe('Image for 32-bit arm nodes.'),
    registry: integerOrText(BOUNDS.name)
      .optional()
      .describe(
        'Registry to pull from: its id or its name; "remote" (1) is the public hub, "local" (2) the node\'s own image cache.',
      ),
    catalogId: integerOrText(BOUNDS.name)
      .optional()
      .describe('Catalog item that names the images; images and registry are then ignored.'),
  }),
  [
    { rule: 'atMostOne', of: ['amd64', 'x86'], message: 'amd64 and x86 are two spellings of one image: give one' },
    {
      rule: 'atMostOne',
      of: ['riscv64', 'riscv'],
      message: 'riscv64 and riscv are two spellings of one image: give one',
    },
  ],
);

const catalogRules: Rule[] = [
  { rule: 'together', field: 'bindPath', list: 'items', message: 'bindPath and items need each other' },
];
const catalogSchema = (what: string) =>
  withRules(
    object({
      bindPath: text({ max: BOUNDS.path, pattern: '^(/.*)?$', expects: 'an absolute path' })
        .optional()
        .describe('Path in the container under which the items appear.'),
      permissions: oneOf('ro', 'rw').optional().describe('ro or rw; ro when absent.'),
      items: mapList(
        object({ name: dottedName(BOUNDS.entryName).describe(`Name of a ${what}.`) }),
        ['name'],
        BOUNDS.catalogItems,
      )
        .optional()
        .describe(`${what} items by name.`),
    }),
    catalogRules,
  );

export const templateRefSchema = object({
  name: text({ min: 1, max: BOUNDS.anyName }).describe('Name of the template.'),
  variables: anyJson().optional().describe('Values of its variables: a map, or a list of {key, value}.'),
});

export const busConfigSchema = closedObject({
  busAccess: z.boolean().optional().describe('Whether credentials for the message bus are issued.'),
  busRule: text({ min: 1, max: BOUNDS.anyName }).optional().describe('Name of the rule that limits them.'),
});

export const roleRefSchema = object({
  kind: text({ max: 63 }).optional().describe('Role.'),
  name: text({ min: 1, max: BOUNDS.name }).describe('Name of the role.'),
  apiGroup: text({ max: BOUNDS.name }).optional().describe('API group of the role.'),
});

const microserviceRules: Rule[] = [
  { rule: 'immutableOnceSet', field: 'uuid', message: 'uuid is immutable once set' },
  {
    rule: 'atMostOne',
    of: ['busConfig', 'busEnabled'],
    message: 'busConfig and busEnabled are two spellings of one setting: give one',
  },
];

export const microserviceSchema = withRules(
  object({
    name: dottedName(BOUNDS.entryName).describe('Name, unique in the application.'),
    uuid: uuidSchema
      .optional()
      .describe('Identity; derived from the application and the name when absent. Immutable once set.'),
    isActivated: z.boolean().optional().describe('false stops the microservice; true when absent.'),
    agent: agentRefSchema.optional().describe('The node it runs on.'),
    images: imagesSchema.optional().describe('Images by architecture.'),
    config: anyJson()
      .optional()
      .describe(
        'Configuration that the microservice reads over the local API of its agent; any JSON of at most 64 KiB.',
      ),
    minReadySeconds: integer(0, 3600)
      .optional()
      .describe(
        'Seconds that it must run before it counts as ready, unless its health check succeeds first; 0 when absent. A change restarts no container.',
      ),
    schedule: integer(0, 100).optional().describe('Start order: lower starts first and stops last; 50 when absent.'),
    container: containerSchema.optional().describe('How the container runs.'),
    models: catalogSchema('Model').optional().describe('Models projected into the container.'),
    knowledge: catalogSchema('Knowledge').optional().describe('Knowledge projected into the container.'),
    template: templateRefSchema.optional().describe('MicroserviceTemplate that this entry overlays.'),
    serviceAccount: closedObject({
      roleRef: roleRefSchema.describe('Role of the workload in the local API of its agent.'),
    })
      .optional()
      .describe('Service account of the workload.'),
    busConfig: busConfigSchema.optional().describe('Access to the message bus.'),
    busEnabled: z.boolean().optional().describe('Other spelling of busConfig.busAccess.'),
  }),
  microserviceRules,
);

/** One entry as stored, aliases included. */
export type MicroserviceEntry = z.infer<typeof microserviceSchema>;
