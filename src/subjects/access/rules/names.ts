import { BOUNDS } from '../../../api/bounds.ts';
import { dottedName } from '../../../api/meta.ts';
import { FIELD_MANAGERS, GROUP } from '../../../api/names.ts';
import { quoted } from '../../../rules/document.ts';
import { invalid } from '../../../rules/errors.ts';

/** Names of roles, bindings and subjects: in v3, and in the cluster. */

/** Roles that every installation has. The last two are of microservices, and permit nothing of the controller. */
export const SYSTEM_ROLES = ['admin', 'sre', 'developer', 'viewer', 'agent-admin', 'microservice'] as const;

const isSystemRole = (name: string): boolean => SYSTEM_ROLES.some((one) => one === name);

const PRODUCT = GROUP.split('.')[0] ?? '';
/** Objects of the installation begin so: roles of the controller and of users. */
export const OWN_PREFIX = `${PRODUCT}-`;
/** What the names of users and groups begin with in the cluster, unless an installation names another word. */
export const DEFAULT_GROUPS_PREFIX = PRODUCT;

const legalName = dottedName();

/** Throws unless a role or a binding may have the name, which the object of the cluster has as well. */
export function requireRbacName(name: string, field: string): void {
  const length = name.length <= BOUNDS.name;
  if (!length || !legalName.safeParse(name).success)
    throw invalid(`${field}: ${quoted(name)}; must be a lower-case name of at most ${BOUNDS.name} characters`, field);
  if (name.startsWith(OWN_PREFIX))
    throw invalid(`${field}: ${quoted(name)}; names that begin with ${OWN_PREFIX} belong to the installation`, field);
}

/** Throws for a role that every installation has. */
export function requireCustomRole(name: string, field: string): void {
  if (isSystemRole(name))
    throw invalid(
      `${field}: ${quoted(name)}; this role belongs to the system: choose another name`,
      field,
      'ROLE_IS_SYSTEM',
    );
}

/** The name of the object of a role, by its v3 name. */
export const roleObjectOf = (name: string): string => (isSystemRole(name) ? `${OWN_PREFIX}${name}` : name);

/** The v3 name of a role, by the name of its object. */
export function roleNameOf(objectName: string): string {
  const name = objectName.startsWith(OWN_PREFIX) ? objectName.slice(OWN_PREFIX.length) : objectName;
  return isSystemRole(name) ? name : objectName;
}

/** The account that the controller itself has in the cluster. */
export const CONTROLLER_SUBJECT = FIELD_MANAGERS.controller;
