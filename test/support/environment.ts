import { accessSync, constants, readFileSync, statfsSync } from 'node:fs'
import fc from 'fast-check'
import { SEED } from './random.ts'

/**
 * Loaded before every test file (bunfig.toml). Variables that configure providers are removed: a
 * test must neither call a provider with the machine's keys nor depend on them. Properties are
 * checked with the cases of one seed. What `npm test` tells the engine is for the tests alone: the
 * programs that they start are as their users have them. Nothing is collected that need not be at
 * once. Temporary files are in memory where the machine has a file system for that.
 */
const PROVIDER_VARIABLE =
  /^AWS_|_(API_KEY|API_TOKEN|BASE_URL|ENDPOINT)$|^(HF_TOKEN|FAL_KEY|RUNWAYML_API_SECRET)$/

const ENGINE_VARIABLE = /^(BUN_JSC|MIMALLOC)_/

/** Whether a variable may configure a provider. */
export const isProviderVariable = (name: string): boolean => PROVIDER_VARIABLE.test(name)

for (const name of Object.keys(process.env))
  if (isProviderVariable(name) || ENGINE_VARIABLE.test(name)) delete process.env[name]

const MEMORY = '/dev/shm'
/** In bytes: a container often has a few MB there. */
const ENOUGH = 4 * 1024 ** 3

// Hundreds of data directories would have two cores wait for one disk.
if (process.env.TMPDIR === undefined && hasMemoryFiles()) process.env.TMPDIR = MEMORY

/** Whether there are files in memory, with room for those of all tests, and programs may be there. */
function hasMemoryFiles(): boolean {
  try {
    accessSync(MEMORY, constants.W_OK)
    const { bavail, bsize } = statfsSync(MEMORY)
    const mounts = readFileSync('/proc/mounts', 'utf8').split('\n')
    const mount = mounts.find(line => line.split(' ')[1] === MEMORY)
    return bavail * bsize >= ENOUGH && mount !== undefined && !mount.includes('noexec')
  } catch {
    return false
  }
}

fc.configureGlobal({ seed: SEED })

// Elysia wants a collection soon after each app that it has made: a server has one, and tests
// hundreds. What has to be collected before the next line still is.
const collectNow = Bun.gc
Bun.gc = isNow => (isNow ? collectNow(true) : 0)
