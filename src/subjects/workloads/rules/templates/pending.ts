import { ANNOTATIONS, FIELD_MANAGERS, TEMPLATE_ANNOTATION_PREFIX } from '../../../../api/names.ts';
import type { Application, MicroserviceEntry } from '../../../../api/v3/index.ts';
import { isEmpty } from '../../../../rules/body-values.ts';
import type { Verdict } from '../../../../rules/verdict.ts';
import { digestOf } from '../../../../wire/digest.ts';

/**
 * Templates that kubectl named (docs/decisions/2026-11-22-templates-over-kubectl.md). An annotation has the hash of the
 * reference that was rendered last; it is written in one step with what the template adds, by one field manager for the
 * application and one for each entry.
 */
export interface PendingTemplate {
  /** the reference, `{name, variables}` */
  template: NonNullable<MicroserviceEntry['template']>;
  hash: string;
  /** absent for the template of the application */
  entry?: MicroserviceEntry;
  annotation: string;
  manager: string;
}

/** The templates whose references changed since they were rendered. */
export function pendingTemplates(application: Application): PendingTemplate[] {
  const { template, microservices = [] } = application.spec;
  const all = [{ template }, ...microservices.map((entry) => ({ template: entry.template, entry }))];
  return all.flatMap(({ template: named, ...rest }): PendingTemplate[] => {
    if (!named) return [];
    const pending = {
      template: named,
      ...rest,
      hash: digestOf(named),
      ...placeOf('entry' in rest ? rest.entry : undefined),
    };
    return recorded(application, pending.annotation) === pending.hash ? [] : [pending];
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

function placeOf(entry: MicroserviceEntry | undefined): Pick<PendingTemplate, 'annotation' | 'manager'> {
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
