/**
 * Loaded before every test file (bunfig.toml). Variables that configure providers are removed: a
 * test must neither call a provider with the machine's keys nor depend on them.
 */
const PROVIDER_VARIABLE = /^AWS_|_(API_KEY|API_TOKEN|BASE_URL|ENDPOINT)$|^HF_TOKEN$/

/** Whether a variable may configure a provider. */
export const isProviderVariable = (name: string): boolean => PROVIDER_VARIABLE.test(name)

for (const name of Object.keys(process.env)) if (isProviderVariable(name)) delete process.env[name]
