import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeAtomically } from './files.ts';

/** The name of the first administrator of the local stack. */
const ADMIN_NAME = 'admin';

/**
 * Settings by which people log in at the controller of the local stack: over loopback alone. The password of the administrator is made once,
 * and stands in the file `admin` of the data folder, which only its owner reads.
 */
export function loginSettings(dir: string, rest: string): Record<string, string> {
  const file = join(dir, 'admin');
  // Each class of characters that the policy asks for is in it.
  if (!existsSync(file)) writeAtomically(file, `Aa1-${randomBytes(15).toString('base64url')}\n`);
  return {
    CONTROLLER_PUBLIC_URL: rest,
    OIDC_BOOTSTRAP_ADMIN_USERNAME: ADMIN_NAME,
    OIDC_BOOTSTRAP_ADMIN_PASSWORD: readFileSync(file, 'utf8').trim(),
  };
}
