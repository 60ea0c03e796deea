import { type RouterHub, routerHubResource } from '../../../api/v3/router-hub.ts';
import { defineKind } from '../../../kinds/definition.ts';
import { routerHubProblem } from '../rules/hub.ts';

export const routerHubKind = defineKind<RouterHub>()({
  key: 'routerHubs',
  definition: routerHubResource,
  noun: 'default router',
  access: 'infrastructure',
  verdict(hub) {
    const problem = routerHubProblem(hub);
    return problem && { status: 400, code: 'VALIDATION_ERROR', reason: 'RouterHubInvalid', ...problem };
  },
  rest: { tag: 'Default router', key: 'name', notFound: 'ROUTER_HUB_NOT_FOUND' },
  indexes: {},
});
