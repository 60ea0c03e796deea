/**
 * The admission policies that an installation needs, as objects. hack/gen.ts writes them twice, as templates of the chart and as
 * manifests/install.yaml for an installation without Helm.
 */
import { VARIABLE_NAME } from '../api/container/parts.ts';
import {
  ANNOTATIONS,
  BUDGET_POLICY_NAME,
  GROUP,
  LABELS,
  PROTECTED,
  SETTINGS_POLICY_NAME,
  SYSTEM_APPLICATION_PREFIX,
  SYSTEM_AUTHORITIES,
  SYSTEM_CERTIFICATES,
  SYSTEM_NAMES_NAME,
  VERSION,
} from '../api/names.ts';
import { RBAC_GROUP, RBAC_RESOURCES } from '../api/rbac.ts';
import { CORE_RESOURCES } from '../api/resources.ts';
import { toStructural } from '../api/structural.ts';
import type { Quantity } from '../rules/budget.ts';
import { TAKEN_ACCOUNT_NAMES } from '../rules/bus-accounts.ts';
import { EVERY_NAME } from '../rules/system-names.ts';
import { OWN_PREFIX } from '../subjects/access/rules/names.ts';
import { FREE_ROLES } from '../subjects/accounts/rules/service-account.ts';
import { leafAccountName } from '../subjects/bus-accounts/rules/account.ts';
import { OPERATOR_OBJECT } from '../subjects/bus-accounts/rules/operator.ts';
import { CORE_POLICIES } from '../subjects/content/rules/core-objects/rules.ts';
import { SYSTEM_GROUPS } from '../subjects/identity/rules/groups.ts';
import { KINDS, type Kinds } from '../subjects/kinds.ts';
import { CONTROLLER_ENTRY } from '../subjects/workloads/rules/controller-entry.ts';
import { FREE_CONTAINER_FIELDS, PLATFORM_MEMBERS } from '../subjects/workloads/rules/platform-entry.ts';

import { CONTROLLER_ACCOUNT, type Manifest, PLURALS } from './roles.ts';

/** Kinds of which some objects belong to the system. */
const WITH_SYSTEM = Object.values(KINDS)
  .map(({ definition }) => definition)
  .filter(({ spec }) => toStructural(spec).properties?.isSystem)
  .map(({ plural }) => plural);
/** Kinds of which some objects exist from the start, with the names of those. */
const WITH_BUILT_INS = Object.values(KINDS as Kinds).flatMap(({ definition: { plural }, builtIns = [] }) =>
  builtIns.length > 0 ? [{ plural, names: builtIns.map(({ name }) => name) }] : [],
);
interface Policy {
  name: string;
  operations: readonly ('CREATE' | 'UPDATE' | 'DELETE')[];
  resources: readonly string[];
  /** core resources that it applies to as well */
  core?: readonly string[];
  /** resources of RBAC that it applies to as well */
  rbac?: readonly string[];
  /** the requests are about objects with this label, before or after them */
  label?: string;
  validations: readonly Validation[];
  /** applies also in namespaces without an installation; otherwise only in its own namespace */
  everywhere?: true;
  /** prints a warning and allows the request */
  warns?: true;
  /** a ConfigMap of the namespace that the expressions read as `params`; without it every request is allowed */
  params?: string;
}

interface Validation {
  /** CEL: true when the request is allowed without a message */
  expression: string;
  message: string;
  /** CEL of a message about this object; `message` is used when it fails */
  messageExpression?: string;
}

const USER = 'request.userInfo.username';
/** The controllers of the cluster, which remove the objects of a deleted namespace and of a deleted owner. */
const COLLECTOR = `${USER}.startsWith('system:serviceaccount:kube-system:') || ${USER} == 'system:kube-controller-manager'`;

/** CEL: the microservices in the status of the object that is being deleted. */
const OBSERVED = 'has(oldObject.status) && has(oldObject.status.microservices)';
/** CEL: of a microservice `m` of an application, whether something of it may be on its machine. */
const REACHED = `has(m.node) && m.state != 'QUEUED'`;
/** CEL: the address under which containers reach a hub. */
const HUB_ADDRESS = (of: string) =>
  `(has(${of}.spec.host) ? ${of}.spec.host : '') + ':' + (has(${of}.spec.serverPort) ? string(${of}.spec.serverPort) : '')`;
/** CEL: whether clients of a hub have to connect by TLS. */
const HUB_TLS = (of: string) => `(has(${of}.spec.clientTls) && ${of}.spec.clientTls)`;
/** The most names that a message lists. */
const SHOWN = 500;
/** The API server begins every warning with "Validation failed for ValidatingAdmissionPolicy", as it begins a refusal. */
const NOT_REFUSED = 'only a warning, the request is carried out';
/** CEL of a message with a list in it: the items of a CEL list, each by a CEL expression over `m`. */
const listing = (before: string, list: string, each: string, after: string) =>
  `'${before}' + [${list}.map(m, ${each}).join(', ')].map(text, text.size() > ${SHOWN} ? text.substring(0, ${SHOWN}) + ' ...' : text)[0] + '${after}'`;

/** CEL: the writer says what it changes, so that it knows what it removes; `apply` and `replace` write whole lists. */
const IS_EXPLICIT = `has(request.options.fieldManager) && request.options.fieldManager in ${listed(['kubectl-edit', 'kubectl-patch'])}`;
/** CEL: whether an entry of `metadata.managedFields` is about another field manager than the writer, and has the microservice `m`. */
const HAS_ENTRY = (managed: string) =>
  [
    `!(has(request.options.fieldManager) && request.options.fieldManager == ${managed}.manager)`,
    `has(${managed}.fieldsV1)`,
    `'f:spec' in ${managed}.fieldsV1`,
    `'f:microservices' in ${managed}.fieldsV1['f:spec']`,
    `('k:{"name":"' + m.name + '"}') in ${managed}.fieldsV1['f:spec']['f:microservices']`,
    // The item itself: a manager that has only changed a member of it, as "kubectl skerry stop" does, does not keep it.
    `'.' in ${managed}.fieldsV1['f:spec']['f:microservices']['k:{"name":"' + m.name + '"}']`,
  ].join(' && ');
/** CEL: whether an update removes the microservice `m` of the former object, which another field manager has. */
const IS_TAKEN = `!(has(object.spec.microservices) && object.spec.microservices.exists(n, n.name == m.name)) && oldObject.metadata.managedFields.exists(f, ${HAS_ENTRY('f')})`;

/** CEL: whether an application asks for access to the message bus. */
const HAS_BUS = (application: string) =>
  `(has(${application}.spec.busConfig) && has(${application}.spec.busConfig.busAccess) && ${application}.spec.busConfig.busAccess)`;
/** CEL: whether an entry asks for it, as `wantsAccess` of src/subjects/bus-accounts/rules/access.ts. */
const WANTS_BUS = (entry: string) =>
  `(has(${entry}.busConfig) && has(${entry}.busConfig.busAccess) ? ${entry}.busConfig.busAccess : has(${entry}.busEnabled) && ${entry}.busEnabled)`;
/** CEL: whether the message bus is off, as the ConfigMap of `settingsPolicyData` says: an edit ends nothing there. */
const IS_BUS_OFF = `!has(params.data) || !('bus' in params.data) || params.data.bus != 'on'`;
/** CEL: the entries of an application that ask for it. */
const WITH_BUS = (application: string) =>
  `(has(${application}.spec.microservices) ? ${application}.spec.microservices.filter(m, ${WANTS_BUS('m')}) : [])`;
/** CEL: of the entries that asked before the update, those that no longer do, and are still there. */
const WITHOUT_BUS = `${WITH_BUS('oldObject')}.filter(o, has(object.spec.microservices) && object.spec.microservices.exists(n, n.name == o.name && !(${WANTS_BUS('n')})))`;

/** CEL: whether the variable `e` has a name that most programs cannot read. */
const IS_ODD = `!e.key.matches('${VARIABLE_NAME}')`;
/** CEL: whether a microservice has a variable with such a name. */
const ODD_VARIABLE = (microservice: string) =>
  `has(${microservice}.container) && has(${microservice}.container.env) && ${microservice}.container.env.exists(e, ${IS_ODD})`;

/** CEL: a list of texts. */
function listed(texts: readonly string[]): string {
  return `[${texts.map((text) => `'${text}'`).join(', ')}]`;
}

/** CEL: whether `object` has a label or an annotation. */
const marked = (object: string, marks: 'labels' | 'annotations', key: string) =>
  `has(${object}.metadata.${marks}) && '${key}' in ${object}.metadata.${marks}`;

/** CEL: whether the v3 API has the core object. */
const isShareable = (object: string) =>
  `${marked(object, 'labels', LABELS.shareable)} && ${object}.metadata.labels['${LABELS.shareable}'] == 'true'`;

/** CEL: whether the object that is deleted is a built-in one, which has a policy of its own. */
const BUILT_IN = WITH_BUILT_INS.map(
  ({ plural, names }) => `(request.resource.resource == '${plural}' && oldObject.metadata.name in ${listed(names)})`,
).join(' || ');
/** CEL: whether the object before the request belongs to the system. */
const WAS_SYSTEM = 'has(oldObject.spec.isSystem) && oldObject.spec.isSystem';

/** CEL: a list with the controller of a node of the system, which is empty in other applications. */
const controllerOf = (object: string) =>
  `(has(${object}.spec.isSystem) && ${object}.spec.isSystem && has(${object}.spec.microservices) ? ${object}.spec.microservices.filter(m, m.name == '${CONTROLLER_ENTRY}') : [])`;
/** CEL: whether an update leaves this controller as it is, and running. */
const KEEPS_CONTROLLER = `${controllerOf('object')} == ${controllerOf('oldObject')} && (${controllerOf('object')} == [] || !has(object.spec.isActivated) || object.spec.isActivated)`;
/** CEL: the names of entries that belong to the platform of a node, as JSON, which CEL cannot read. */
const platformNames = (object: string) =>
  `(${marked(object, 'annotations', ANNOTATIONS.platform)} ? ${object}.metadata.annotations['${ANNOTATIONS.platform}'] : '')`;
/** CEL: the entries of the application before the request that belong to the platform of a node. */
const PLATFORM_ENTRIES = `(${WAS_SYSTEM} && has(oldObject.spec.microservices) ? oldObject.spec.microservices.filter(o, ${platformNames('oldObject')}.contains('"' + o.name + '"')) : [])`;
/** What the policy says of a change. */
const OF_PLATFORM = `microservices that belong to the platform of a node change with its settings; users change ${FREE_CONTAINER_FIELDS.map((field) => `container.${field}`).join(', ')} and rebuild them`;
/** CEL: the keys of two maps that have different values. */
const changedKeys = (one: string, other: string) =>
  `(${one}.filter(k, !(k in ${other}) || ${one}[k] != ${other}[k]) + ${other}.filter(k, !(k in ${one})))`;
/** CEL: the container of an entry, or an empty one. */
const containerOf = (entry: string) => `('container' in ${entry} ? ${entry}['container'] : {})`;
/** CEL: what an update changes of the entry \`o\` besides what users may change, as paths. Two spellings of one value differ. */
const PLATFORM_CHANGES = [
  "(!has(object.spec.microservices) || !object.spec.microservices.exists(n, n.name == o.name) ? ['removed'] : ",
  `object.spec.microservices.filter(n, n.name == o.name).map(n, ${changedKeys('dyn(o)', 'dyn(n)')}.filter(k, k != 'container') + `,
  `${changedKeys(containerOf('dyn(o)'), containerOf('dyn(n)'))}.filter(k, !(k in ${listed(FREE_CONTAINER_FIELDS)})).map(k, 'container.' + k))[0])`,
].join('');
/** CEL: whether an update leaves the members of an application as they are that change what its microservices are. */
const KEEPS_MEMBERS = [
  '(!has(object.spec.isActivated) || object.spec.isActivated || (has(oldObject.spec.isActivated) && !oldObject.spec.isActivated))',
  ...PLATFORM_MEMBERS.map((name) => {
    const [now, old] = [`object.spec.${name}`, `oldObject.spec.${name}`];
    return `has(${now}) == has(${old}) && (!has(${now}) || ${now} == ${old})`;
  }),
].join(' && ');

/** CEL: the roles that everyone gives to a microservice; all others only those give who may bind them. */
const FREE = listed(FREE_ROLES);
const UNBOUND = `only who may bind a role gives it to a microservice (verb bind of roles in ${GROUP}), except ${FREE_ROLES.join(', ')}`;
/** CEL: whether the user may do `verb` (CEL) to the object `name` (CEL) of a resource that only the roles know. */
const may = (resource: string, name: string, verb: string) =>
  `authorizer.group('${GROUP}').resource('${resource}').namespace(request.namespace).name(${name}).check(${verb}).allowed()`;
/** CEL: whether the user may change the applications of the system: all, or the one with this name (CEL). */
const mayChangeSystem = (name?: string) =>
  [
    `authorizer.group('${GROUP}').resource('systemapplications').namespace(request.namespace).check('update').allowed()`,
    ...(name ? [may('systemapplications', name, "'update'")] : []),
  ].join(' || ');
/** CEL: whether the user may give a role to a microservice. */
const mayBind = (role: string) => may('roles', role, "'bind'");
/** CEL: whether the user may give every role to a microservice. */
const MAY_BIND_ALL = `authorizer.group('${GROUP}').resource('roles').namespace(request.namespace).check('bind').allowed()`;
/** CEL: the name of the role that an entry names, or the default name. */
const roleOf = (entry: string) =>
  `(has(${entry}.serviceAccount) ? ${entry}.serviceAccount.roleRef.name : '${FREE_ROLES[0]}')`;
/** CEL: the roles that an update gives to entries and that are not free. */
const NEW_ROLES = `(has(object.spec.microservices) ? object.spec.microservices.filter(m, !(${roleOf('m')} in ${FREE}) && !(oldObject != null && has(oldObject.spec.microservices) && oldObject.spec.microservices.exists(o, o.name == m.name && ${roleOf('o')} == ${roleOf('m')}))).map(m, ${roleOf('m')}) : [])`;

/** CEL: whether the user may put users into every group. */
const MAY_GIVE_GROUPS = `authorizer.group('${GROUP}').resource('authgroups').namespace(request.namespace).check('bind').allowed()`;
/** CEL: the groups that a write gives to a user. */
const NEW_GROUPS =
  '(has(object.spec.groups) ? object.spec.groups.filter(g, !(oldObject != null && has(oldObject.spec.groups) && g in oldObject.spec.groups)) : [])';
/** CEL: whether the user may give more than they have, as cluster admins may. */
const MAY_ESCALATE = `authorizer.group('${RBAC_GROUP}').resource('${RBAC_RESOURCES.roles.plural}').namespace(request.namespace).check('escalate').allowed()`;
/** CEL: a note of the controller's own. */
const noteOf = (object: string, annotation: string) =>
  `(${marked(object, 'annotations', annotation)} ? ${object}.metadata.annotations['${annotation}'] : '')`;
/** CEL: whether a write leaves a note as it was. */
const keepsNote = (annotation: string) =>
  `${noteOf('object', annotation)} == (oldObject != null ? ${noteOf('oldObject', annotation)} : '')`;
/** CEL: whether an update leaves a member of the spec as it was. */
const keeps = (member: string) => {
  const [now, old] = [`object.spec.${member}`, `oldObject.spec.${member}`];
  return `has(${now}) == has(${old}) && (!has(${now}) || ${now} == ${old})`;
};

/** CEL: the spec of an object that is written or deleted. */
const BUS_SPEC = '(oldObject != null ? oldObject : object).spec';
/** CEL: whether a user of the bus belongs to the system, or the controller makes it for a node or a microservice. */
const IS_BUS_USER_OF_SYSTEM = `${BUS_SPEC}.account in ${listed(TAKEN_ACCOUNT_NAMES)} || ${BUS_SPEC}.account.startsWith('${leafAccountName('')}') || has(${BUS_SPEC}.node) || has(${BUS_SPEC}.microserviceUuid)`;

/** CEL: the level of a budget, as the leader has written it. */
const levelOf = (quantity: Quantity) =>
  `(has(params.data) && '${quantity}' in params.data ? params.data['${quantity}'] : 'open')`;
/** CEL: the lengths of keys and texts of a map, or 0 without it. */
const lengths = (map: string) => `(has(${map}) ? ${map}.map(k, k.size() + ${map}[k].size()).sum() : 0)`;
/** CEL: whether an update makes what these members have longer. */
const grows = (...members: string[]) => {
  const all = (object: string) => members.map((member) => lengths(`${object}.${member}`)).join(' + ');
  return `${all('object')} > ${all('oldObject')}`;
};
const METADATA = ['metadata.labels', 'metadata.annotations'];
/** CEL: whether the object is a Secret or a ConfigMap. */
const IS_CONTENT = "request.resource.group == ''";
/** CEL: whether the user may store more than the budget of users. */
const MAY_RESERVE = `authorizer.group('${GROUP}').resource('budgets').subresource('reserve').namespace(request.namespace).check('create').allowed()`;
/** CEL: whether an admin creates a node of the system, as after the loss of the store. Its status says where none may be. */
const MAY_CREATE_SYSTEM_NODE = `request.operation == 'CREATE' && request.resource.resource == '${KINDS.nodes.definition.plural}' && authorizer.group('${GROUP}').resource('${KINDS.nodes.definition.plural}').subresource('system').namespace(request.namespace).check('create').allowed()`;
/** CEL: whether Helm writes the object for an installation. A release has no label of its own. */
const IS_OF_HELM =
  "((has(object.type) && object.type == 'helm.sh/release.v1') || (has(object.metadata.labels) && 'app.kubernetes.io/managed-by' in object.metadata.labels && object.metadata.labels['app.kubernetes.io/managed-by'] == 'Helm'))";

/**
 * A policy knows one object, and not the sum of all: the leader writes down how much of each budget is used (`policyData` of
 * src/rules/budget.ts). What does not grow is always allowed. The bytes of a spec cannot be counted here, so that specs
 * change freely until half of the reserve is used up. An upgrade of the chart, which may raise the budgets, is always possible
 * for those who have the reserve.
 */
function budgetRules(exempt: string): Validation[] {
  const rule = (quantity: Quantity, harmless: string): Validation => ({
    expression: `${levelOf(quantity)} == 'open' || ${harmless} || ${exempt} || ((${levelOf(quantity)} != 'spent' || ${IS_OF_HELM}) && ${MAY_RESERVE})`,
    message: 'a budget of what users store is used up: delete what is no longer needed',
    messageExpression: `string(params.data['${quantity}-text'])`,
  });
  const update = "request.operation == 'UPDATE'";
  return [
    rule('content', `!(${IS_CONTENT}) || (${update} && !(${grows('data', 'binaryData', ...METADATA)}))`),
    rule(
      'objects',
      `${IS_CONTENT} || (${update} && !(${grows(...METADATA)}) && (${levelOf('objects')} == 'full' || object.spec == oldObject.spec))`,
    ),
    rule('count', update),
  ];
}

/** CEL: the names and numbers by which others may mean an object, as the leader writes down those that the system uses. */
function namesOf(object: string): string {
  const mark = (marks: 'labels' | 'annotations', key: string) => `${object}.metadata.${marks}['${key}']`;
  const called = `(has(${object}.spec.name) ? ${object}.spec.name : ${object}.metadata.name)`;
  const ofCore = `(${marked(object, 'annotations', ANNOTATIONS.name)} ? ${mark('annotations', ANNOTATIONS.name)} : ${object}.metadata.name)`;
  const ofAccount = `request.resource.resource == 'serviceaccounts' ? ${object}.spec.applicationName + '/' : ''`;
  const numbers = [
    `(has(${object}.spec.id) ? ['id:' + string(${object}.spec.id)] : [])`,
    `(${marked(object, 'labels', LABELS.id)} ? ['id:' + ${mark('labels', LABELS.id)}] : [])`,
  ];
  return `(${IS_CONTENT} ? (${isShareable(object)} ? ['name:' + ${ofCore}] : []) : ['name:' + (${ofAccount}) + ${called}] + ${numbers.join(' + ')})`;
}
/** CEL: the names of the kind that the system uses, one in each line. */
const SYSTEM_NAMES = 'params.data[request.resource.resource]';
/** CEL: whether an object gets no name by the request that the system uses. It keeps the names that it has. */
const GETS_NO_SYSTEM_NAME = `!has(params.data) || !(request.resource.resource in params.data) || ${namesOf('object')}.all(n, (oldObject != null && n in ${namesOf('oldObject')}) || (${SYSTEM_NAMES} != '${EVERY_NAME}' && !${SYSTEM_NAMES}.contains('\\n' + n + '\\n')))`;

/** CEL: whether the request is about a ConfigMap that policies read. */
const IS_PARAMETER = `(oldObject != null ? oldObject : object).metadata.name in ${listed([BUDGET_POLICY_NAME, SYSTEM_NAMES_NAME, SETTINGS_POLICY_NAME])}`;

/** Rules that a CRD cannot express: about the namespace of an object, its writer, or its deletion. */
function policies(namespace: string): Policy[] {
  const controller = `${USER} == 'system:serviceaccount:${namespace}:${CONTROLLER_ACCOUNT}'`;
  return [
    {
      // A namespace has an installation when it has the controller's role, so the policies need no list of installations.
      name: 'namespace',
      everywhere: true,
      operations: ['CREATE'],
      resources: PLURALS,
      validations: [
        {
          expression: `authorizer.serviceAccount(request.namespace, '${CONTROLLER_ACCOUNT}').group('${GROUP}').resource(request.resource.resource).namespace(request.namespace).check('update').allowed()`,
          message: `objects of ${GROUP} belong into a namespace where a controller works, such as ${namespace}; elsewhere nobody would reconcile them`,
        },
      ],
    },
    {
      name: 'in-use',
      operations: ['DELETE'],
      resources: PLURALS,
      core: Object.values(CORE_RESOURCES).map(({ plural }) => plural),
      validations: [
        {
          expression: `!(${marked('oldObject', 'labels', LABELS.inUse)} && oldObject.metadata.labels['${LABELS.inUse}'] == 'true') || ${BUILT_IN} || ${controller} || ${COLLECTOR}`,
          message: 'it is in use; first remove what names it',
          messageExpression: `string(${marked('oldObject', 'annotations', ANNOTATIONS.usedBy)} ? oldObject.metadata.annotations['${ANNOTATIONS.usedBy}'] : 'it is in use; first remove what names it')`,
        },
      ],
    },
    {
      name: 'shareable',
      operations: ['CREATE', 'UPDATE'],
      resources: [],
      core: Object.values(CORE_RESOURCES).map(({ plural }) => plural),
      label: LABELS.shareable,
      validations: CORE_POLICIES.map(({ keeps, resources, message }) => ({
        // What broke the rule before may be changed in other things.
        expression: `!(request.resource.resource in ${listed(resources)}) || !(${isShareable('object')}) || (${keeps('object')}) || (oldObject != null && ${isShareable('oldObject')} && !(${keeps('oldObject')})) || ${controller}`,
        message,
      })),
    },
    {
      // The controller creates Secrets of its own. One with a token would let it act as the jobs of the chart, which change CRDs.
      name: 'controller-tokens',
      operations: ['CREATE'],
      resources: [],
      core: [CORE_RESOURCES.secrets.plural],
      validations: [
        {
          expression: `!(${controller}) || !has(object.type) || object.type != 'kubernetes.io/service-account-token'`,
          message: 'the controller gets no tokens of service accounts by Secrets',
        },
      ],
    },
    {
      name: 'budgets',
      operations: ['CREATE', 'UPDATE'],
      resources: PLURALS,
      core: Object.values(CORE_RESOURCES).map(({ plural }) => plural),
      params: BUDGET_POLICY_NAME,
      validations: budgetRules(`${controller} || ${COLLECTOR}`),
    },
    {
      // What a user stores over kubectl counts for the installation alone; it must not count for another user.
      name: 'stored-by',
      operations: ['CREATE', 'UPDATE'],
      resources: PLURALS,
      core: Object.values(CORE_RESOURCES).map(({ plural }) => plural),
      validations: [
        {
          expression: `!(${marked('object', 'annotations', ANNOTATIONS.storedBy)}) || object.metadata.annotations['${ANNOTATIONS.storedBy}'] == ${USER} || (oldObject != null && ${marked('oldObject', 'annotations', ANNOTATIONS.storedBy)} && object.metadata.annotations['${ANNOTATIONS.storedBy}'] == oldObject.metadata.annotations['${ANNOTATIONS.storedBy}']) || ${controller} || ${MAY_RESERVE}`,
          message: `${ANNOTATIONS.storedBy} names whom the object counts for: leave it out`,
        },
      ],
    },
    {
      name: 'protected',
      operations: ['DELETE'],
      resources: PLURALS,
      validations: [
        {
          expression: `!(${marked('oldObject', 'annotations', ANNOTATIONS.protected)}) || oldObject.metadata.annotations['${ANNOTATIONS.protected}'] == 'false' || ${COLLECTOR}`,
          message: PROTECTED,
        },
      ],
    },
    {
      name: 'address-of-the-hub',
      operations: ['UPDATE'],
      resources: ['bushubs'],
      warns: true,
      validations: [
        {
          expression: `${controller} || ${COLLECTOR} || (${HUB_ADDRESS('oldObject')}) == (${HUB_ADDRESS('object')})`,
          message: `${NOT_REFUSED}: containers that reach the hub directly get the other address, and are replaced: those of no node in the first half minute, of all nodes within five minutes once its servers have every token`,
        },
        {
          expression: `${controller} || ${COLLECTOR} || ${HUB_TLS('oldObject')} == ${HUB_TLS('object')}`,
          message: `${NOT_REFUSED}: all containers that reach the hub directly are replaced at once, and every other client has to connect as the hub asks from now on`,
        },
      ],
    },
    {
      name: 'what-a-node-runs',
      operations: ['DELETE'],
      resources: ['edgenodes'],
      warns: true,
      validations: [
        {
          // Nothing reaches the machine of an agent that gave up the identity of the node.
          expression: `!(${OBSERVED}) || oldObject.status.microservices.size() == 0 || (has(oldObject.status.daemonStatus) && oldObject.status.daemonStatus == 'DEPROVISIONED') || ${controller} || ${COLLECTOR}`,
          message: `${NOT_REFUSED}: what the node runs is removed from its machine`,
          messageExpression: listing(
            `${NOT_REFUSED}: this removes from the machine what the node runs: `,
            'oldObject.status.microservices',
            `(has(m.application) ? m.application + '/' : '') + (has(m.name) ? m.name : m.uuid)`,
            `; the annotation ${ANNOTATIONS.protected}=true keeps a node from being deleted`,
          ),
        },
      ],
    },
    {
      name: 'what-an-application-runs',
      operations: ['DELETE'],
      resources: ['applications'],
      warns: true,
      validations: [
        {
          expression: `!(${OBSERVED}) || !oldObject.status.microservices.exists(m, ${REACHED}) || ${controller} || ${COLLECTOR}`,
          message: `${NOT_REFUSED}: what the application runs is removed from its machines`,
          messageExpression: listing(
            `${NOT_REFUSED}: this removes from their machines: `,
            `oldObject.status.microservices.filter(m, ${REACHED})`,
            `m.name + ' on ' + m.node`,
            `; the annotation ${ANNOTATIONS.protected}=true keeps an application from being deleted`,
          ),
        },
      ],
    },
    {
      // A server-side apply leaves what others have. A plain apply and a replace write the whole list.
      name: 'microservices-of-others',
      operations: ['UPDATE'],
      resources: ['applications'],
      warns: true,
      validations: [
        {
          expression: `${controller} || ${COLLECTOR} || (${IS_EXPLICIT}) || !has(oldObject.spec.microservices) || !has(oldObject.metadata.managedFields) || !oldObject.spec.microservices.exists(m, ${IS_TAKEN})`,
          message: `${NOT_REFUSED}: this removes microservices that other field managers have in the application`,
          messageExpression: listing(
            `${NOT_REFUSED}: this removes microservices that other field managers have in the application: `,
            `oldObject.spec.microservices.filter(m, ${IS_TAKEN})`,
            `m.name + ' (' + oldObject.metadata.managedFields.filter(f, ${HAS_ENTRY('f')})[0].manager + ')'`,
            '; kubectl apply --server-side leaves them',
          ),
        },
      ],
    },
    {
      name: 'bus-access',
      operations: ['UPDATE'],
      resources: ['applications'],
      warns: true,
      params: SETTINGS_POLICY_NAME,
      validations: [
        {
          expression: `${controller} || ${COLLECTOR} || ${IS_BUS_OFF} || !(${HAS_BUS('oldObject')}) || ${HAS_BUS('object')}`,
          message: `${NOT_REFUSED}: this ends the account of the application on the message bus`,
          messageExpression: listing(
            `${NOT_REFUSED}: this ends the account of the application on the message bus and the credentials of all of its users, also of programs and devices, and of its microservices: `,
            WITH_BUS('oldObject'),
            'm.name',
            '; its streams stay on the servers, and a later account of its name has another key and does not see them',
          ),
        },
        {
          expression: `${controller} || ${COLLECTOR} || ${IS_BUS_OFF} || !(${HAS_BUS('oldObject')}) || !(${HAS_BUS('object')}) || ${WITHOUT_BUS}.size() == 0`,
          message: `${NOT_REFUSED}: this ends users of the message bus`,
          messageExpression: listing(
            `${NOT_REFUSED}: this ends the users and the credentials on the message bus of: `,
            WITHOUT_BUS,
            'm.name',
            '; the account and its streams stay',
          ),
        },
      ],
    },
    {
      name: 'names-of-variables',
      operations: ['CREATE', 'UPDATE'],
      resources: ['applications'],
      warns: true,
      validations: [
        {
          expression: `!has(object.spec.microservices) || !object.spec.microservices.exists(m, ${ODD_VARIABLE('m')})`,
          message: `${NOT_REFUSED}: an env variable has a name that most programs cannot read`,
          messageExpression: `'${NOT_REFUSED}: spec.microservices: ' + object.spec.microservices.filter(m, ${ODD_VARIABLE('m')}).map(m, m.name + ': the env variable "' + m.container.env.filter(e, ${IS_ODD})[0].key + '" has a name that most programs cannot read; use letters, digits and _')[0]`,
        },
      ],
    },
    {
      name: 'drafts',
      operations: ['CREATE', 'UPDATE'],
      resources: ['registries'],
      validations: [
        {
          expression: `!(${marked('object', 'annotations', ANNOTATIONS.draft)}) || (oldObject != null && ${marked('oldObject', 'annotations', ANNOTATIONS.draft)}) || ${controller}`,
          message: `${ANNOTATIONS.draft} is a note of the controller's own; leave it out`,
        },
      ],
    },
    {
      name: 'roles-of-accounts',
      operations: ['CREATE', 'UPDATE'],
      resources: ['serviceaccounts'],
      validations: [
        {
          expression: `object.spec.roleRef.name in ${FREE} || (oldObject != null && oldObject.spec.roleRef.name == object.spec.roleRef.name) || ${mayBind('object.spec.roleRef.name')} || ${controller}`,
          message: UNBOUND,
        },
      ],
    },
    {
      name: 'roles-of-microservices',
      operations: ['CREATE', 'UPDATE'],
      resources: ['applications'],
      // A check of a permission is dear, so that a write gives one role, unless the writer may bind all.
      validations: [
        {
          expression: `${controller} || [${NEW_ROLES}].all(roles, roles.size() == 0 || ${MAY_BIND_ALL} || (roles.all(r, r == roles[0]) && ${mayBind('roles[0]')}))`,
          message: UNBOUND,
        },
      ],
    },
    {
      name: 'system',
      operations: ['CREATE', 'UPDATE'],
      resources: WITH_SYSTEM,
      validations: [
        {
          expression: `(has(object.spec.isSystem) && object.spec.isSystem) == (oldObject != null && ${WAS_SYSTEM}) || ${controller} || (${MAY_CREATE_SYSTEM_NODE})`,
          message: 'isSystem is set and cleared by the controller alone; an admin creates nodes of the system',
        },
      ],
    },
    {
      // Nobody can take the name of the application of the system on a node. Whoever has such a name from before keeps it.
      name: 'system-names',
      operations: ['CREATE'],
      resources: ['applications'],
      validations: [
        {
          expression: `(has(object.spec.isSystem) && object.spec.isSystem) || !(object.metadata.name.startsWith('${SYSTEM_APPLICATION_PREFIX}') || (has(object.spec.name) && object.spec.name.startsWith('${SYSTEM_APPLICATION_PREFIX}'))) || ${controller}`,
          message: `names that begin with ${SYSTEM_APPLICATION_PREFIX} belong to applications of the system: choose another name`,
        },
      ],
    },
    {
      // Their keys decide who is the controller, a router or a bus server.
      name: 'system-authorities',
      operations: ['CREATE', 'UPDATE', 'DELETE'],
      resources: [KINDS.certificateAuthorities.definition.plural, KINDS.certificates.definition.plural],
      validations: [
        {
          expression: `!((oldObject != null ? oldObject : object).metadata.name in ${listed([...SYSTEM_AUTHORITIES, ...SYSTEM_CERTIFICATES])}) || ${controller} || ${COLLECTOR} || ${mayChangeSystem()}`,
          message: `the object belongs to the system: only who may update systemapplications in ${GROUP} creates, changes or deletes it`,
        },
      ],
    },
    {
      // Their credentials decide who is a server of the bus, and whose container has which.
      name: 'bus-of-system',
      operations: ['CREATE', 'UPDATE', 'DELETE'],
      resources: [KINDS.busAccounts.definition.plural, KINDS.busUsers.definition.plural],
      validations: [
        {
          expression: `${controller} || ${COLLECTOR} || request.resource.resource != '${KINDS.busAccounts.definition.plural}' || !has(${BUS_SPEC}.system)`,
          message: 'accounts of the system are made, changed and deleted by the controller alone',
        },
        {
          expression: `${controller} || ${COLLECTOR} || request.resource.resource != '${KINDS.busUsers.definition.plural}' || !(${IS_BUS_USER_OF_SYSTEM})`,
          message:
            'users of accounts of the system, of nodes and of microservices are made, changed and deleted by the controller alone: busConfig of an application says which of its microservices have access',
        },
      ],
    },
    {
      name: 'bus-operator',
      operations: ['DELETE'],
      resources: [KINDS.busOperators.definition.plural],
      validations: [
        {
          expression: `oldObject.metadata.name != '${OPERATOR_OBJECT}' || ${controller} || ${COLLECTOR}`,
          message: 'the operator of the message bus is not deleted: raise spec.rotation to give it another key',
        },
      ],
    },
    {
      // The same rules as `platformRefusal` and `platformDeletion` of src/subjects/workloads/rules/platform-entry.ts.
      name: 'platform',
      operations: ['CREATE', 'UPDATE', 'DELETE'],
      resources: ['applications'],
      validations: [
        {
          expression: `request.operation == 'DELETE' || ${platformNames('object')} == (oldObject != null ? ${platformNames('oldObject')} : '') || ${controller}`,
          message: `${ANNOTATIONS.platform} is a note of the controller's own; leave it as it is`,
        },
        {
          expression: `request.operation != 'UPDATE' || ${controller} || ${COLLECTOR} || ${PLATFORM_ENTRIES}.all(o, ${PLATFORM_CHANGES}.size() == 0)`,
          message: OF_PLATFORM,
          messageExpression: `'${OF_PLATFORM}: ' + ${PLATFORM_ENTRIES}.filter(o, ${PLATFORM_CHANGES}.size() > 0).map(o, o.name + ' (' + ${PLATFORM_CHANGES}.join(', ') + ')').join(', ')`,
        },
        {
          expression: `request.operation != 'UPDATE' || ${controller} || ${COLLECTOR} || ${PLATFORM_ENTRIES}.size() == 0 || (${KEEPS_MEMBERS})`,
          message: `the application has microservices that belong to the platform of a node: leave ${['isActivated', ...PLATFORM_MEMBERS].join(', ')} as they are`,
        },
        {
          expression: `request.operation != 'DELETE' || ${controller} || ${COLLECTOR} || ${PLATFORM_ENTRIES}.size() == 0`,
          message:
            'the application has microservices that belong to the platform of a node: set the modes of its router and bus to none, or delete the node',
        },
      ],
    },
    {
      // Over REST these are a resource of their own. An update and a patch are one operation here.
      name: 'system-applications',
      operations: ['UPDATE', 'DELETE'],
      resources: ['applications'],
      validations: [
        {
          expression: `!(${WAS_SYSTEM}) || ${controller} || ${COLLECTOR} || ${may('systemapplications', 'oldObject.metadata.name', "request.operation == 'DELETE' ? 'delete' : 'update'")}`,
          message: `the application belongs to the system: only who may update or delete systemapplications in ${GROUP} does that`,
        },
      ],
    },
    {
      // Its agent registers it. Who may change the application may still add and change what others have in it.
      name: 'controllers-of-nodes',
      operations: ['UPDATE', 'DELETE'],
      resources: ['applications'],
      validations: [
        {
          expression: `${controller} || ${COLLECTOR} || (request.operation == 'DELETE' ? ${controllerOf('oldObject')} == [] : ${KEEPS_CONTROLLER})`,
          message: `spec.microservices: "${CONTROLLER_ENTRY}" is the controller of a node of the system: its agent alone changes it, and it ends when the node is deleted`,
        },
      ],
    },
    {
      // The label itself says who may write: the policy concerns an object that has it before or after the request.
      name: 'used-by-system',
      operations: ['CREATE', 'UPDATE', 'DELETE'],
      resources: PLURALS.filter((plural) => !WITH_SYSTEM.includes(plural)),
      core: Object.values(CORE_RESOURCES).map(({ plural }) => plural),
      label: LABELS.usedBySystem,
      validations: [
        {
          expression: `${controller} || ${COLLECTOR} || ${mayChangeSystem()}`,
          message: `applications of the system use it, as the label ${LABELS.usedBySystem} says: only who may update systemapplications in ${GROUP} changes or deletes it`,
        },
      ],
    },
    {
      // The label says it of what exists: this concerns names that no object has, and those that one more object gets.
      name: 'names-of-system',
      operations: ['CREATE', 'UPDATE'],
      resources: PLURALS.filter((plural) => !WITH_SYSTEM.includes(plural)),
      core: Object.values(CORE_RESOURCES).map(({ plural }) => plural),
      params: SYSTEM_NAMES_NAME,
      validations: [
        {
          expression: `${GETS_NO_SYSTEM_NAME} || ${controller} || ${COLLECTOR} || ${mayChangeSystem()}`,
          message: `applications of the system name an object so: only who may update systemapplications in ${GROUP} gives an object this name or number`,
        },
      ],
    },
    {
      name: 'parameters',
      operations: ['CREATE', 'UPDATE', 'DELETE'],
      resources: [],
      core: [CORE_RESOURCES.configMaps.plural],
      validations: [
        {
          expression: `!(${IS_PARAMETER}) || ${controller} || ${COLLECTOR} || ${mayChangeSystem()}`,
          message: `admission policies read it, and the controller writes it: only who may update systemapplications in ${GROUP} changes or deletes it`,
        },
      ],
    },
    {
      // An account needs no microservice of its name, so that it may come before the label does.
      name: 'accounts-of-system',
      operations: ['CREATE', 'UPDATE'],
      resources: ['serviceaccounts'],
      validations: [
        {
          expression: `!object.spec.applicationName.startsWith('${SYSTEM_APPLICATION_PREFIX}') || (oldObject != null && object.spec == oldObject.spec) || ${controller} || ${mayChangeSystem('object.spec.applicationName')}`,
          message: `spec.applicationName: names of applications of the system begin with "${SYSTEM_APPLICATION_PREFIX}": only who may update systemapplications in ${GROUP} gives them accounts`,
        },
      ],
    },
    {
      // Neither users nor the controller itself change what the roles of the installation permit, or who has them.
      name: 'own-roles',
      operations: ['CREATE', 'UPDATE', 'DELETE'],
      resources: [],
      rbac: Object.values(RBAC_RESOURCES).map(({ plural }) => plural),
      validations: [
        {
          expression: `!(oldObject != null ? oldObject : object).metadata.name.startsWith('${OWN_PREFIX}') || ${COLLECTOR} || ${MAY_ESCALATE}`,
          message: `names that begin with ${OWN_PREFIX} belong to the installation: only who may escalate roles of ${RBAC_GROUP}, as cluster admins may, creates, changes or deletes the object`,
        },
        {
          expression: `request.operation == 'DELETE' || ${keepsNote(ANNOTATIONS.replaces)} || ${controller}`,
          message: `${ANNOTATIONS.replaces} is a note of the controller's own; leave it as it is`,
        },
      ],
    },
    {
      // Whoever gives a group gives its role bindings. A write gives one group, unless its writer may give all.
      name: 'groups-of-users',
      operations: ['CREATE', 'UPDATE'],
      resources: [KINDS.authUsers.definition.plural],
      validations: [
        {
          expression: `${controller} || [${NEW_GROUPS}].all(groups, groups.size() == 0 || ${MAY_GIVE_GROUPS} || (groups.size() == 1 && ${may('authgroups', 'groups[0]', "'bind'")}))`,
          message: `only who may bind a group puts a user into it (verb bind of authgroups in ${GROUP}), one group in a write unless they may bind all`,
        },
        {
          expression: `${controller} || oldObject == null || object.spec.email == oldObject.spec.email || ${MAY_GIVE_GROUPS}`,
          message: `what is bound to a name goes to whoever has it: only who may bind all groups changes an e-mail (verb bind of authgroups in ${GROUP})`,
        },
        {
          expression: `${controller} || ${keepsNote(ANNOTATIONS.formerEmails)}`,
          message: `${ANNOTATIONS.formerEmails} is a note of the controller's own; leave it as it is`,
        },
      ],
    },
    {
      name: 'groups',
      operations: ['CREATE', 'UPDATE'],
      resources: [KINDS.authGroups.definition.plural],
      validations: [
        {
          expression: `${controller} || (oldObject != null && object.spec == oldObject.spec) || ${may('authgroups', 'has(object.spec.name) ? object.spec.name : object.metadata.name', "'bind'")}`,
          message: `only who may bind a group makes or changes it (verb bind of authgroups in ${GROUP})`,
        },
      ],
    },
    {
      // Role bindings of every installation name them. Whether their members need a second factor may change.
      name: 'system-groups',
      operations: ['UPDATE', 'DELETE'],
      resources: [KINDS.authGroups.definition.plural],
      validations: [
        {
          expression: `!(oldObject.metadata.name in ${listed(SYSTEM_GROUPS)}) || (request.operation == 'UPDATE' && ${keeps('name')} && ${keeps('aliases')}) || ${controller} || ${COLLECTOR}`,
          message: 'groups of the system are neither renamed nor deleted',
        },
      ],
    },
    ...WITH_BUILT_INS.map(
      ({ plural, names }): Policy => ({
        name: `built-in-${plural}`,
        operations: ['UPDATE', 'DELETE'],
        resources: [plural],
        validations: [
          {
            expression: `!(oldObject.metadata.name in ${listed(names)}) || (request.operation == 'UPDATE' && object.spec == oldObject.spec) || ${controller} || ${COLLECTOR}`,
            message: `the built-in ${plural} cannot be changed or deleted`,
          },
        ],
      }),
    ),
  ];
}

export function admissionPolicies(namespace: string): Manifest[] {
  const own = { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } } };
  return policies(namespace).flatMap(
    ({ name, operations, resources, core, rbac, label, validations, everywhere, warns, params }) => {
      const full = `skerry-${name}.${namespace}.${GROUP}`;
      return [
        {
          apiVersion: 'admissionregistration.k8s.io/v1',
          kind: 'ValidatingAdmissionPolicy',
          metadata: { name: full },
          spec: {
            failurePolicy: 'Fail',
            ...(params && { paramKind: { apiVersion: 'v1', kind: 'ConfigMap' } }),
            matchConstraints: {
              ...(label && { objectSelector: { matchExpressions: [{ key: label, operator: 'Exists' }] } }),
              resourceRules: [
                ...(resources.length > 0
                  ? [{ apiGroups: [GROUP], apiVersions: [VERSION], operations, resources }]
                  : []),
                ...(core ? [{ apiGroups: [''], apiVersions: ['v1'], operations, resources: core }] : []),
                ...(rbac ? [{ apiGroups: [RBAC_GROUP], apiVersions: ['v1'], operations, resources: rbac }] : []),
              ],
            },
            validations,
          },
        },
        {
          apiVersion: 'admissionregistration.k8s.io/v1',
          kind: 'ValidatingAdmissionPolicyBinding',
          metadata: { name: full },
          spec: {
            policyName: full,
            ...(params && { paramRef: { name: params, namespace, parameterNotFoundAction: 'Allow' } }),
            validationActions: [warns ? 'Warn' : 'Deny'],
            ...(!everywhere && { matchResources: own }),
          },
        },
      ];
    },
  );
}
