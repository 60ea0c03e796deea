/** What a user has to show or do before it gets tokens. */
export interface Duties {
  /** the first administrator, unless the policy says otherwise: no second factor is asked for */
  isExempt: boolean;
  /** a group of the user asks for a second factor */
  mfaRequired: boolean;
  mfaEnabled: boolean;
  mustChangePassword: boolean;
}

/** A second factor is asked for, and the user has none. */
export const mustEnroll = ({ isExempt, mfaRequired, mfaEnabled }: Duties): boolean =>
  !isExempt && mfaRequired && !mfaEnabled;

/** The user has a second factor, and shows it at each login. */
export const mustShowCode = ({ isExempt, mfaEnabled }: Duties): boolean => !isExempt && mfaEnabled;
