/** The Worker's side: one shell over one file system in memory. */

import { Bash, InMemoryFs } from 'just-bash/browser'
import { serveJobs } from '../../../base/worker/serve-jobs.ts'
import { cutText } from '../output.ts'
import {
  type CommandResult,
  HOME,
  type HomeListing,
  isHomePath,
  type ListedFile,
  MOST_ENTRIES,
  MOST_OUTPUT_BYTES,
  type SandboxLimits,
} from '../sandbox.ts'
import type { ShellJob } from './protocol.ts'

let shell: Shell | undefined

serveJobs(async (job: ShellJob) => {
  try {
    postMessage({ result: await doJob(job) })
  } catch (thrown) {
    postMessage({ error: thrown instanceof Error ? thrown.message : String(thrown) })
  }
})

async function doJob(job: ShellJob): Promise<unknown> {
  if (job.type === 'open') {
    shell = new Shell(job.limits)
    await shell.prepare()
    return null
  }
  if (!shell) throw new Error('The shell is not open')
  if (job.type === 'run') return shell.run(job)
  if (job.type === 'write') return shell.write(job)
  return job.type === 'list' ? shell.list() : shell.read(job.path)
}

/** What the interpreter answers for a command whose time is over. */
const LATE = 124
/** A file system in the memory of this process may have so many bytes at most. */
const MOST_BYTES = 64 * 1024 * 1024

/**
 * A shell that is written in JavaScript, over files in memory: it starts no process, and knows no
 * file and no network of the host. Its build for browsers has no code for either.
 */
class Shell {
  readonly #fs: InMemoryFs
  readonly #limits: SandboxLimits

  constructor(limits: SandboxLimits) {
    this.#limits = limits
    this.#fs = new InMemoryFs(undefined, {
      maxTotalBytes: Math.min(limits.homeBytes, MOST_BYTES) + SYSTEM_BYTES,
    })
    this.#fs.mkdirSync(HOME, { recursive: true })
    this.#fs.mkdirSync('/tmp', { recursive: true })
  }

  /** Runs a command that does nothing: what it needs is loaded before anyone waits for it. */
  async prepare(): Promise<void> {
    await this.run({ type: 'run', text: 'true', timeoutMs: 10_000, maxOutput: 1 })
  }

  /** Runs a command in a shell of its own. */
  async run(job: Extract<ShellJob, { type: 'run' }>): Promise<CommandResult> {
    const { text, timeoutMs, maxOutput } = job
    const bash = new Bash({
      fs: this.#fs,
      cwd: HOME,
      env: { HOME, USER: 'sandbox', LANG: 'C.UTF-8', PATH: '/usr/bin:/bin' },
      // It replaces parts of the runtime that Bun does not let it replace.
      defenseInDepth: false,
      executionLimitProfile: 'hardened',
      executionLimits: {
        maxExecutionTimeMs: timeoutMs,
        maxOutputSize: Math.min(MOST_OUTPUT_BYTES, MOST_TEXT),
        maxLiveBytes: Math.min(this.#limits.memoryBytes, MOST_BYTES),
        maxStringLength: MOST_TEXT,
      },
    })
    const startedAt = performance.now()
    const isLate = () => performance.now() - startedAt >= timeoutMs
    // On a busy machine what it ends fails in other ways than by its own code for that.
    const { stdout, stderr, exitCode } = await bash
      .exec(text, { rawScript: true })
      .catch(thrown => {
        if (isLate()) return { stdout: '', stderr: '', exitCode: LATE }
        throw thrown
      })
    return {
      stdout: cutText(stdout, maxOutput),
      stderr: cutText(stderr, maxOutput),
      exitCode: exitCode !== 0 && isLate() ? null : exitCode,
    }
  }

  /** Writes a file. What stands in its way, a link too, is replaced. */
  async write({ path, mode, bytes }: Extract<ShellJob, { type: 'write' }>): Promise<void> {
    const segments = path.split('/')
    for (const [i] of segments.entries()) {
      const at = `${HOME}/${segments.slice(0, i + 1).join('/')}`
      const stat = await this.#fs.lstat(at).catch(() => null)
      const isLast = i === segments.length - 1
      if (stat && (isLast || !stat.isDirectory || stat.isSymbolicLink))
        await this.#fs.rm(at, { recursive: true, force: true })
      if (!isLast && !stat?.isDirectory) this.#fs.mkdirSync(at)
    }
    await this.#fs.writeFile(`${HOME}/${path}`, bytes)
    await this.#fs.chmod(`${HOME}/${path}`, mode)
  }

  /** Lists the files of the home. Links are not followed. */
  async list(): Promise<HomeListing> {
    const files: ListedFile[] = []
    let left = 0
    let seen = 0
    const visit = async (directory: string): Promise<void> => {
      for (const name of await this.#fs.readdir(`${HOME}/${directory}`)) {
        const path = `${directory}${name}`
        const stat = await this.#fs.lstat(`${HOME}/${path}`)
        if (++seen > MOST_ENTRIES) left += 1
        else if (stat.isDirectory && !stat.isSymbolicLink) await visit(`${path}/`)
        else if (!stat.isFile || stat.isSymbolicLink || !isHomePath(path)) left += 1
        else files.push(await this.#describe(path, stat.mode))
      }
    }
    await visit('')
    return { files, left }
  }

  read = (path: string): Promise<Uint8Array> => this.#fs.readFileBuffer(`${HOME}/${path}`)

  // Two changes may have the same time.
  async #describe(path: string, mode: number): Promise<ListedFile> {
    const bytes = await this.read(path)
    const size = bytes.length
    return { path, mode: mode & 0o777, size, version: `${size} ${Bun.hash(bytes)}` }
  }
}

/** What the interpreter itself keeps in the file system: its commands. */
const SYSTEM_BYTES = 1024 * 1024
const MOST_TEXT = 8 * 1024 * 1024
