import type { EdgeNode } from '../../../src/api/v3/index.ts';
import { pathOf } from '../forms.ts';
import { type Item, isMissing } from '../model.ts';
import { routerProblem } from '../platform.ts';
import type { Perform } from './operation.ts';

/** REST wants these with a mode. */
const PORTS = { interRouterPort: 55_671, edgeRouterPort: 45_671 };

/** Changes what a node is: its modes, its host, the router that it uses. */
export const configure: Perform<'configure'> = async (fleet, { name, settings, surface }) => {
  const { state } = fleet;
  const item = fleet.named('nodes', name);
  const next: Item['settings'] = { ...item?.settings, ...settings };
  const apply = (stored = next) => {
    if (item) item.settings = stored;
  };
  if (surface === 'kubectl') {
    const object = item && fleet.stored(item);
    if (!object) return;
    fleet.controller.cluster.edit(object as EdgeNode, ({ spec }) => Object.assign(spec, settings));
    apply();
    return;
  }
  // A mode that nobody set is shown as edge, and a mode that is sent as it is shown stays unset (docs/spec/rest-v3.md#node-body).
  const { routerMode, ...others } = settings;
  const isAsShown = routerMode === 'edge' && item?.settings?.routerMode === undefined;
  const isRouter = next.routerMode === 'edge' || next.routerMode === 'interior';
  const needsHost = settings.routerMode !== undefined && !isAsShown && isRouter && next.host === undefined;
  const named = settings.networkRouter !== item?.settings?.networkRouter ? settings.networkRouter : undefined;
  const problem = item && routerProblem(state, item, named);
  await fleet.over(
    {
      method: 'PATCH',
      path: pathOf('nodes', item, name),
      body: { ...settings, ...(settings.routerMode === 'interior' && PORTS) },
    },
    {
      refused: [
        ...(item ? [] : [isMissing('nodes')]),
        ...(needsHost ? [{ status: 400, code: 'VALIDATION_ERROR' }] : []),
        ...(problem ? [problem] : []),
      ],
      status: 204,
      apply: () => apply(isAsShown ? { ...item?.settings, ...others } : next),
    },
  );
};
