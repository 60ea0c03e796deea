import type { BusAccountRuleSpec, BusUserRuleSpec } from '../../../api/v3/index.ts';
import type { BuiltIn } from '../../../rules/built-in.ts';
import { type DomainError, invalid } from '../../../rules/errors.ts';

/** The rules that exist from the start and never change (docs/spec/message-bus.md#reserved-rules). */

const UNLIMITED = {
  maxConnections: -1,
  maxLeafNodeConnections: -1,
  maxSubscriptions: -1,
  maxImports: -1,
  maxExports: -1,
  maxData: -1,
  maxMsgPayload: -1,
  exportsAllowWildcards: true,
} as const;
const STORE = {
  memStorage: -1,
  diskStorage: -1,
  streams: -1,
  consumer: -1,
  maxAckPending: -1,
  memMaxStreamBytes: -1,
  diskMaxStreamBytes: -1,
} as const;
const INFO = 'https://docs.nats.io/nats-server/configuration/sys_accounts';

export const RESERVED_ACCOUNT_RULES: readonly BuiltIn<BusAccountRuleSpec>[] = [
  {
    name: 'default-system-account',
    spec: {
      description: 'System account of a bus server.',
      ...UNLIMITED,
      exports: [
        {
          name: 'account-monitoring-streams',
          subject: '$SYS.ACCOUNT.*.>',
          type: 'stream',
          account_token_position: 3,
          description: 'Events of the account that imports them.',
          info_url: INFO,
        },
        {
          name: 'account-monitoring-services',
          subject: '$SYS.REQ.ACCOUNT.*.*',
          type: 'service',
          response_type: 'Stream',
          account_token_position: 4,
          description: 'Questions about the account that imports them.',
          info_url: INFO,
        },
      ],
    },
  },
  {
    name: 'default-account',
    spec: { description: 'Account of an application that names no rule.', ...UNLIMITED, ...STORE },
  },
  {
    name: 'controller-account',
    spec: { description: 'Account by which the replicas of the controller pass sessions.', ...UNLIMITED, ...STORE },
  },
];

const USER = { maxSubscriptions: -1, maxData: -1, maxPayload: -1, bearerToken: false } as const;
/** What the replicas of the controller pass each other. */
const RELAY = ['controller.relay.v1.>'];

export const RESERVED_USER_RULES: readonly BuiltIn<BusUserRuleSpec>[] = [
  {
    name: 'default-user',
    spec: {
      description: 'User of a microservice that names no rule.',
      ...USER,
      allowedConnectionTypes: ['STANDARD', 'WEBSOCKET'],
    },
  },
  {
    name: 'default-mqtt-user',
    spec: {
      description: 'MQTT device that names no rule.',
      ...USER,
      bearerToken: true,
      allowedConnectionTypes: ['MQTT', 'STANDARD'],
    },
  },
  {
    name: 'default-leaf-user',
    spec: {
      description: 'Link of a leaf server for one account.',
      ...USER,
      allowedConnectionTypes: ['LEAFNODE', 'WEBSOCKET'],
    },
  },
  {
    name: 'controller-user',
    spec: {
      description: 'User by which the replicas of the controller pass sessions.',
      ...USER,
      allowedConnectionTypes: ['STANDARD'],
      pubAllow: RELAY,
      subAllow: RELAY,
    },
  },
];

/** The refusal to create, change or delete a rule with a reserved name; undefined for other names. */
export const reservedRuleError = (reserved: readonly BuiltIn<object>[], name: unknown): DomainError | undefined =>
  reserved.some((rule) => rule.name === name)
    ? invalid(
        `name: ${JSON.stringify(name)}; the rule belongs to the system, and cannot be created, changed or deleted`,
        'name',
        'BUS_RULE_RESERVED',
      )
    : undefined;
