import { accessSync, chmodSync, constants, mkdtempSync, readFileSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { collectGrowth } from './collect.ts'
import { SEED } from './random.ts'

/**
 * Loaded before every test file (bunfig.toml). Variables that configure providers are removed: a
 * test must neither call a provider with the machine's keys nor depend on them. Properties are
 * checked with the cases of one seed. What `npm test` tells the engine is for the tests alone: the
 * programs that they start are as their users have them. Garbage is collected once it takes much
 * memory. Temporary files are in memory where the machine has a file system for that, in a directory
 * of this process, which is removed when it ends, however it does.
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
const place = process.env.TMPDIR === undefined && hasMemoryFiles() ? MEMORY : tmpdir()
const directory = mkdtempSync(join(place, 'gateway-'))
// Servers of Postgres run as another user.
chmodSync(directory, 0o755)
process.env.TMPDIR = directory

// No handler is called when a process of tests ends, but what another one reads of it ends.
if (process.platform !== 'win32') {
  const command = ['/bin/sh', '-c', 'read -r _; rm -rf "$1"', 'sh', directory]
  const options = { cwd: '/', stdin: 'pipe', stdout: 'ignore', stderr: 'ignore' } as const
  const remover = Bun.spawn(command, { ...options, detached: true })
  remover.unref()
  // It would be collected, and its input end, if nobody kept it.
  process.once('exit', () => remover.stdin.end())
}

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

// Elysia wants a collection soon after each app that it has made, and a gateway one after its first
// large bodies: a server has one of them, and tests hundreds.
Bun.gc = isNow => {
  if (isNow) collectGrowth()
  return 0
}
