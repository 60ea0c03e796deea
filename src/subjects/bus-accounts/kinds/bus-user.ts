import { type BusUser, busUserResource } from '../../../api/v3/bus-user.ts';
import { defineKind } from '../../../kinds/definition.ts';
import { userNameOf, userRuleOf } from '../rules/user.ts';

export const busUserKind = defineKind<BusUser>()({
  key: 'busUsers',
  definition: busUserResource,
  noun: 'bus user',
  identity: { name: userNameOf },
  access: 'workloads',
  inUse: { status: 400, code: 'BUS_USER_IN_USE' },
  rest: { tag: 'Message bus', key: 'name', notFound: 'BUS_USER_NOT_FOUND' },
  indexes: {
    /** name of its BusAccount */
    account: ({ spec }) => [spec.account],
    /** name of its BusUserRule */
    rule: (user) => [userRuleOf(user)],
    /** name of its BusAccount, of users of microservices: there are fewer of them than of all users */
    access: ({ spec: { account, microserviceUuid } }) => (microserviceUuid === undefined ? [] : [account]),
    /** name of its BusAccount, of users of bus servers */
    server: ({ spec: { account, node } }) => (node === undefined ? [] : [account]),
    /** name of its BusAccount, of users of MQTT, whom the rule of the account may shut out */
    mqtt: ({ spec: { account, isBearer } }) => (isBearer ? [account] : []),
    /** uuid of its microservice */
    microservice: ({ spec: { microserviceUuid } }) => (microserviceUuid === undefined ? [] : [microserviceUuid]),
    /** node whose bus server it is for */
    node: ({ spec: { node } }) => (node === undefined ? [] : [node]),
  },
});
