import { type BusHub, busHubResource } from '../../../api/v3/bus-hub.ts';
import { defineKind } from '../../../kinds/definition.ts';
import { hubProblem } from '../rules/hub.ts';

export const busHubKind = defineKind<BusHub>()({
  key: 'busHubs',
  definition: busHubResource,
  noun: 'bus hub',
  access: 'installation',
  verdict(hub) {
    const problem = hubProblem(hub);
    return problem && { status: 400, code: 'VALIDATION_ERROR', reason: 'BusHubInvalid', ...problem };
  },
  rest: { tag: 'Message bus', key: 'name', notFound: 'BUS_HUB_NOT_FOUND' },
  indexes: {},
});
