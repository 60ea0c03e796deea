import type { Json } from '../../example.ts';
import { find, isMissing } from '../model.ts';
import type { Perform } from './operation.ts';

export const activate: Perform<'activate'> = async (fleet, { name, isActivated, surface }) => {
  const application = find(fleet.state, { to: 'applications', ref: name });
  const set = () => {
    if (application) application.draft = { ...application.draft, isActivated };
  };
  if (surface === 'kubectl') {
    const object = application && fleet.stored(application);
    if (!object) return;
    fleet.controller.cluster.edit(object, (copy) => {
      (copy.spec as Json).isActivated = isActivated;
    });
    set();
    return;
  }
  await fleet.over(
    { method: 'PATCH', path: `/application/${name}`, body: { isActivated } },
    { refused: application ? [] : [isMissing('applications')], status: 204, apply: set },
  );
};
