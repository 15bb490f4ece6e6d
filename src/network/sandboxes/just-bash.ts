import type { Cancellation } from '../../base/cancellation.ts'
import { GatewayError } from '../../base/errors.ts'
import { startWorkerAtOnce } from '../../base/worker.ts'
import type { ShellAnswer, ShellJob } from './just-bash/protocol.ts'
import {
  type CommandResult,
  type HomeListing,
  type ListedFile,
  type Sandbox,
  type SandboxBox,
  type SandboxCommand,
  SandboxGone,
  type SandboxLimits,
  type WrittenFile,
} from './sandbox.ts'

/**
 * Runs commands in a shell written in JavaScript, in a Worker for each container. It works
 * everywhere, and keeps strangers from the host by the language alone: it has no processes, no
 * network, and only the programs that it brings.
 */
export const justBash: Sandbox = {
  name: 'just-bash',
  obstacle: null,
  missing: null,
  findObstacle: async () => null,
  findNetworkObstacle: () => 'just-bash has no network',
  open: limits => JustBashBox.open(limits),
}

/** How much longer than its time a command may take before its Worker is ended, in milliseconds. */
const GRACE = 500
/** The longest time of what the gateway does in a container itself, in milliseconds. */
const OWN_TIMEOUT = 60_000

class JustBashBox implements SandboxBox {
  isGone = false
  readonly #ending = Promise.withResolvers<void>()
  readonly ended = this.#ending.promise
  readonly #worker = startWorker()
  #waiting: PromiseWithResolvers<ShellAnswer> | null = null

  private constructor() {
    this.#worker.onmessage = ({ data }: MessageEvent<ShellAnswer>) => this.#waiting?.resolve(data)
    this.#worker.onerror = event => {
      event.preventDefault()
      this.#end()
    }
    this.#worker.addEventListener('close', () => this.#end())
  }

  static async open(limits: SandboxLimits): Promise<JustBashBox> {
    const box = new JustBashBox()
    await box.#ask({ type: 'open', limits }, OWN_TIMEOUT)
    return box
  }

  async run(command: SandboxCommand): Promise<CommandResult> {
    const { text, timeoutMs, maxOutput, cancellation } = command
    try {
      const job = { type: 'run' as const, text, timeoutMs, maxOutput }
      return (await this.#ask(job, timeoutMs + GRACE, cancellation)) as CommandResult
    } catch (thrown) {
      if (cancellation.reason) throw cancellation.reason
      if (thrown === LATE) return { stdout: '', stderr: '', exitCode: null }
      if (thrown instanceof SandboxGone) throw thrown
      return { stdout: '', stderr: thrown instanceof Error ? thrown.message : '', exitCode: 1 }
    }
  }

  async write(files: AsyncIterable<WrittenFile>): Promise<void> {
    for await (const { path, mode, pieces } of files) {
      const bytes = Buffer.concat(await Array.fromAsync(pieces))
      await this.#ask({ type: 'write', path, mode, bytes }, OWN_TIMEOUT)
    }
  }

  list = async (): Promise<HomeListing> =>
    (await this.#ask({ type: 'list' }, OWN_TIMEOUT)) as HomeListing

  async *read(files: ListedFile[]): AsyncIterable<Uint8Array> {
    for (const { path } of files)
      yield (await this.#ask({ type: 'read', path }, OWN_TIMEOUT)) as Uint8Array
  }

  async close(): Promise<void> {
    this.#end()
  }

  /** Asks the Worker. It ends when that takes too long, and when its answer is not wanted. */
  async #ask(job: ShellJob, timeoutMs: number, cancellation?: Cancellation): Promise<unknown> {
    if (this.isGone) throw new SandboxGone()
    const waiting = Promise.withResolvers<ShellAnswer>()
    this.#waiting = waiting
    const timer = setTimeout(() => this.#end(LATE), timeoutMs)
    cancellation?.listen(reason => this.#end(reason))
    try {
      this.#worker.postMessage(job)
      const answer = await waiting.promise
      if ('error' in answer) throw new Error(answer.error)
      return answer.result
    } finally {
      clearTimeout(timer)
      if (!cancellation?.reason) cancellation?.listen(null)
      this.#waiting = null
    }
  }

  #end(why: Error = new SandboxGone()): void {
    this.isGone = true
    this.#ending.resolve()
    this.#worker.terminate()
    this.#waiting?.reject(why)
  }
}

const LATE = new GatewayError('timeout', 'The command took too long')

/** Starts the Worker of one container. It does not keep the process alive. */
function startWorker(): Worker {
  return startWorkerAtOnce(getWorkerUrl(), { smol: true, env: {} } as WorkerOptions)
}

// In the compiled binary, entry points keep their paths in src, and all other modules are at the
// root.
const getWorkerUrl = () =>
  new URL(
    Bun.isStandaloneExecutable
      ? './network/sandboxes/just-bash/worker.ts'
      : './just-bash/worker.ts',
    import.meta.url,
  )
