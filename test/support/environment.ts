import fc from 'fast-check'
import { SEED } from './random.ts'

/**
 * Loaded before every test file (bunfig.toml). Variables that configure providers are removed: a
 * test must neither call a provider with the machine's keys nor depend on them. Properties are
 * checked with the cases of one seed.
 */
const PROVIDER_VARIABLE = /^AWS_|_(API_KEY|API_TOKEN|BASE_URL|ENDPOINT)$|^(HF_TOKEN|FAL_KEY)$/

/** Whether a variable may configure a provider. */
export const isProviderVariable = (name: string): boolean => PROVIDER_VARIABLE.test(name)

for (const name of Object.keys(process.env)) if (isProviderVariable(name)) delete process.env[name]

fc.configureGlobal({ seed: SEED })
