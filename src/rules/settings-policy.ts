/** Settings of an installation, as the admission policies read them from a ConfigMap. */
export const settingsPolicyData = ({ isBusEnabled }: { isBusEnabled: boolean }): Record<string, string> => ({
  bus: isBusEnabled ? 'on' : 'off',
});
