import { ANNOTATIONS, FIELD_MANAGERS, TEMPLATE_ANNOTATION_PREFIX } from '../../api/names.ts';
import type { Application, MicroserviceEntry } from '../../api/v3/index.ts';
import { canonicalJson, digestOf } from '../../wire/index.ts';
import type { Verdict } from '../inputs.ts';
import { type Fields, isEmpty } from '../microservice/body-values.ts';

/**
 * Templates that kubectl named (docs/decisions/2026-11-22-templates-over-kubectl.md). An annotation has the hash of the
 * reference that was rendered last; it is written in one step with what the template adds, by one field manager for the
 * application and one for each entry.
 */
export interface DueTemplate {
  /** the reference, `{name, variables}` */
  template: NonNullable<MicroserviceEntry['template']>;
  hash: string;
  /** absent for the template of the application */
  entry?: MicroserviceEntry;
  annotation: string;
  manager: string;
}

/** The templates whose references changed since they were rendered. */
export function dueTemplates(application: Application): DueTemplate[] {
  const { template, microservices = [] } = application.spec;
  const all = [{ template }, ...microservices.map((entry) => ({ template: entry.template, entry }))];
  return all.flatMap(({ template: named, ...rest }): DueTemplate[] => {
    if (!named) return [];
    const due = {
      template: named,
      ...rest,
      hash: digestOf(named),
      ...placeOf('entry' in rest ? rest.entry : undefined),
    };
    return recorded(application, due.annotation) === due.hash ? [] : [due];
  });
}

/** Annotations of entries that are gone, or that no longer name a template. */
export function abandonedTemplates(application: Application): string[] {
  const named = new Set(
    (application.spec.microservices ?? []).flatMap((entry) =>
      isEmpty(entry.template) ? [] : [placeOf(entry).annotation],
    ),
  );
  return Object.keys(application.metadata.annotations ?? {}).filter(
    (key) => key.startsWith(TEMPLATE_ANNOTATION_PREFIX) && !named.has(key),
  );
}

/** The field manager of an entry, by its annotation. */
export const managerOf = (annotation: string) =>
  `${FIELD_MANAGERS.template}/${annotation.slice(TEMPLATE_ANNOTATION_PREFIX.length)}`;

function placeOf(entry: MicroserviceEntry | undefined): Pick<DueTemplate, 'annotation' | 'manager'> {
  if (!entry) return { annotation: ANNOTATIONS.template, manager: FIELD_MANAGERS.template };
  const annotation = `${TEMPLATE_ANNOTATION_PREFIX}${entry.name}`;
  return { annotation, manager: managerOf(annotation) };
}

const recorded = ({ metadata }: Application, annotation: string) => metadata.annotations?.[annotation];

/** An entry runs only with what its template adds. */
export function notRendered(application: Application, name: string, template: unknown): Verdict | undefined {
  if (isEmpty(template)) return undefined;
  const { annotation } = placeOf({ name });
  return recorded(application, annotation) === digestOf(template) ? undefined : NOT_RENDERED;
}

export const NOT_RENDERED: Verdict = {
  reason: 'TemplateNotRendered',
  status: 400,
  code: 'TEMPLATE_NOT_RENDERED',
  field: 'template',
  message: 'its template has not been rendered yet',
  passes: true,
};

/** `managedFields` of an object: which manager owns which fields. */
export interface ManagedFields {
  manager?: string;
  subresource?: string;
  fieldsV1?: Fields;
}

/** Whether a manager other than this one owns a field, or a part of it. */
export function isOwnedByOthers(managed: readonly ManagedFields[], manager: string, path: readonly string[]): boolean {
  return managed.some(
    (one) =>
      one.manager !== manager &&
      !one.subresource &&
      path.reduce<unknown>((at, step) => (at as Fields | undefined)?.[step], one.fieldsV1 ?? {}) !== undefined,
  );
}

/** Path of an entry in `managedFields`. */
export const entryPath = (name: string): readonly string[] => [
  'f:spec',
  'f:microservices',
  `k:${JSON.stringify({ name })}`,
];

/** Architectures are one member of an entry: another one of its images would be one of another version. */
const NOT_IMAGES = new Set(['registry', 'catalogId']);

/**
 * The members that both an entry and its template set, to different values. Over REST the template wins; a manifest is applied
 * again and again, so that the two would fight.
 */
export function clashes(
  entry: MicroserviceEntry,
  part: MicroserviceEntry,
  managed: readonly ManagedFields[],
  manager: string,
): string[] {
  const isTaken = (path: readonly string[]) =>
    isOwnedByOthers(managed, manager, [...entryPath(entry.name), ...path.map((step) => `f:${step}`)]);
  const at = (value: unknown, path: readonly string[]) =>
    path.reduce<unknown>((member, step) => (member as Fields | undefined)?.[step], value);
  const paths = Object.entries(part).flatMap(([key, value]) => {
    if (key === 'name') return [];
    return key === 'container' || key === 'images'
      ? Object.keys(value as object).map((inner) => [key, inner])
      : [[key]];
  });
  const differs = (path: readonly string[]) => canonicalJson(at(entry, path)) !== canonicalJson(at(part, path));
  const others = Object.keys(entry.images ?? {}).filter((key) => !NOT_IMAGES.has(key) && !(key in (part.images ?? {})));
  const hasImages = Object.keys(part.images ?? {}).some((key) => !NOT_IMAGES.has(key));
  return [
    ...paths.filter((path) => isTaken(path) && differs(path)),
    ...(hasImages ? others.map((key) => ['images', key]).filter(isTaken) : []),
  ].map((path) => path.join('.'));
}
