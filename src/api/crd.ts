import type { PrinterColumn, ResourceDefinition } from './meta.ts';
import { CATEGORY, GROUP, VERSION } from './names.ts';
import { toCel } from './rules.ts';
import { CLOSED } from './schema.ts';
import { type Structural, toStructural } from './structural.ts';

/** The version that wrote a definition: an annotation of CRDs, so that an older version leaves a newer one's alone. */
export const CRD_VERSION = `${GROUP}/crd-version`;

/** No tool that once had a definition among its objects deletes it, and with it every object of the kind. */
const KEPT = {
  'argocd.argoproj.io/sync-options': 'Prune=false,Delete=false',
  'helm.sh/resource-policy': 'keep',
  'kustomize.toolkit.fluxcd.io/prune': 'disabled',
};

/** The CustomResourceDefinition of a kind: structural schema, CEL rules, columns, selectable fields. */
export function toCrd(kind: ResourceDefinition, version?: string): Record<string, unknown> {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: {
      name: `${kind.plural}.${GROUP}`,
      annotations: { ...KEPT, ...(version && { [CRD_VERSION]: version }) },
    },
    spec: {
      group: GROUP,
      scope: 'Namespaced',
      names: {
        kind: kind.kind,
        listKind: `${kind.kind}List`,
        plural: kind.plural,
        singular: kind.singular,
        ...(kind.shortNames.length > 0 && { shortNames: [...kind.shortNames] }),
        categories: [CATEGORY],
      },
      versions: [
        {
          name: VERSION,
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: kind.printerColumns.map(column),
          ...(kind.selectableFields.length > 0 && {
            selectableFields: kind.selectableFields.map((jsonPath) => ({ jsonPath })),
          }),
          schema: { openAPIV3Schema: objectSchema(kind) },
        },
      ],
    },
  };
}

/** The API server accepts any subdomain (RFC 1123) as a name: a label is one without dots, of at most 63 characters. */
const LABEL_NAME = {
  rule: "size(self.metadata.name) <= 63 && !self.metadata.name.contains('.')",
  message: 'must be a name of at most 63 lower-case letters, digits and "-"',
};

const notNamed = ({ name, message }: NonNullable<ResourceDefinition['reservedName']>) => ({
  rule: `self.metadata.name != '${name}'`,
  message,
});

function objectSchema(kind: ResourceDefinition): Structural {
  return {
    type: 'object',
    description: kind.description,
    required: ['spec'],
    'x-kubernetes-validations': [
      ...(kind.hasLabelNames ? [LABEL_NAME] : []),
      ...(kind.reservedName ? [notNamed(kind.reservedName)] : []),
      ...kind.identity.rules.map((rule) => ({
        rule: toCel(rule),
        message: rule.message,
        ...(rule.rule === 'recorded' && { fieldPath: `.spec.${rule.field}` }),
      })),
    ],
    properties: {
      apiVersion: { type: 'string', description: `${GROUP}/${VERSION}.` },
      kind: { type: 'string', description: `${kind.kind}.` },
      metadata: { type: 'object' },
      spec: { ...published(toStructural(kind.spec)), description: 'What is asked for.' },
      // Written as a whole by one writer: the API server need not keep who has which of its members.
      status: {
        ...published(toStructural(kind.status)),
        'x-kubernetes-map-type': 'atomic',
        description: 'What is observed; written by the controller.',
      },
    },
  };
}

/** The schema without metadata for our own use. */
const published = (schema: Structural): Structural =>
  JSON.parse(JSON.stringify(schema, (key, value) => (key === CLOSED ? undefined : value)));

const column = ({ name, type, jsonPath, description, priority }: PrinterColumn) => ({
  name,
  type,
  jsonPath,
  ...(description && { description }),
  ...(priority && { priority }),
});

/** Paths of fields without a description, which `kubectl explain` needs for every field. */
export function undescribed(schema: Structural, path = ''): string[] {
  const below = [
    ...Object.entries(schema.properties ?? {}).flatMap(([name, member]) => {
      const at = path ? `${path}.${name}` : name;
      return [...(member.description ? [] : [at]), ...undescribed(member, at)];
    }),
    ...(schema.items ? undescribed(schema.items, `${path}[]`) : []),
    ...(schema.additionalProperties ? undescribed(schema.additionalProperties, `${path}{}`) : []),
  ];
  return below.filter((at) => !/^metadata/.test(at));
}
