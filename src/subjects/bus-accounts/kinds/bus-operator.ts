import { type BusOperator, busOperatorResource } from '../../../api/v3/bus-operator.ts';
import { defineKind } from '../../../kinds/definition.ts';

export const busOperatorKind = defineKind<BusOperator>()({
  key: 'busOperators',
  definition: busOperatorResource,
  noun: 'bus operator',
  access: 'installation',
  rest: { tag: 'Message bus', key: 'name', notFound: 'BUS_OPERATOR_NOT_FOUND' },
  indexes: {},
});
