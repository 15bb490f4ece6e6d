import fc from 'fast-check'
import { SEED } from './random.ts'

/**
 * Loaded before every test file (bunfig.toml). Variables that configure providers are removed: a
 * test must neither call a provider with the machine's keys nor depend on them. Properties are
 * checked with the cases of one seed. Nothing is collected that need not be at once.
 */
const PROVIDER_VARIABLE =
  /^AWS_|_(API_KEY|API_TOKEN|BASE_URL|ENDPOINT)$|^(HF_TOKEN|FAL_KEY|RUNWAYML_API_SECRET)$/

/** Whether a variable may configure a provider. */
export const isProviderVariable = (name: string): boolean => PROVIDER_VARIABLE.test(name)

for (const name of Object.keys(process.env)) if (isProviderVariable(name)) delete process.env[name]

fc.configureGlobal({ seed: SEED })

// Elysia wants a collection soon after each app that it has made: a server has one, and tests
// hundreds. What has to be collected before the next line still is.
const collectNow = Bun.gc
Bun.gc = isNow => (isNow ? collectNow(true) : 0)
