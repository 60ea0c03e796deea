import { TEMPLATE_ENTRY } from '../../../src/subjects/workloads/_make.ts';
import { refusalsOf } from '../entries.ts';
import { type Entry, find, IS_TAKEN, isMissing, WITHOUT_CONTENT } from '../model.ts';
import type { Perform } from './operation.ts';

/** Creates an application from a template. */
export const instantiate: Perform<'instantiate'> = (fleet, { name, template, image }) => {
  const { state } = fleet;
  const exists = find(state, { to: 'applications', ref: name });
  const found = find(state, { to: 'applicationTemplates', ref: template });
  const entry: Entry = {
    ...{ name: TEMPLATE_ENTRY.name, node: { name: TEMPLATE_ENTRY.node }, image },
    ...{ models: [], knowledge: [], isActivated: true, rebuilds: 0 },
  };
  const after = { ...fleet.fresh('applications', name, WITHOUT_CONTENT), entries: [entry] };
  return fleet.over(
    { method: 'POST', path: '/application', body: { name, template: { name: template, variables: { image } } } },
    {
      refused: [
        ...(exists ? [IS_TAKEN] : []),
        ...(found ? refusalsOf(state, undefined, after) : [isMissing('applicationTemplates')]),
      ],
      status: 201,
      apply: () => state.items.push(after),
    },
  );
};
