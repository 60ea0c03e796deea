/** The one object of the operator. */
export const OPERATOR_OBJECT = 'bus-operator';

/** Name of the operator of an installation. */
export const operatorName = (installation: string): string => `${installation}-operator`;
