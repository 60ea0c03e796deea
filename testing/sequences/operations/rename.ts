import { find, IS_TAKEN, isMissing } from '../model.ts';
import type { Perform } from './operation.ts';

export const rename: Perform<'rename'> = (fleet, { name, to }) => {
  const item = find(fleet.state, { to: 'applicationTemplates', ref: name });
  const taken = to !== name && find(fleet.state, { to: 'applicationTemplates', ref: to });
  return fleet.over(
    { method: 'PATCH', path: `/applicationTemplate/${name}`, body: { name: to } },
    {
      refused: item ? (taken ? [IS_TAKEN] : []) : [isMissing('applicationTemplates')],
      status: 204,
      apply: () => {
        if (item) item.name = to;
      },
    },
  );
};
