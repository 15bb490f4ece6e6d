import {
  type CommandResult,
  type ListedFile,
  type Sandbox,
  type SandboxBox,
  type SandboxCommand,
  SandboxGone,
  type SandboxLimits,
  type SandboxNetwork,
  type WrittenFile,
} from '../../../src/network/sandboxes/sandbox.ts'

/**
 * A sandbox whose commands are words: `write <path> <text>`, `remove <path>`,
 * `slow <path> <text>`, `hang`, `late`.
 */
export class FakeSandbox implements Sandbox {
  readonly name = 'just-bash'
  obstacle: string | null = null
  missing: string | null = null
  readonly boxes: FakeBox[] = []
  /** How often a file has another size when it is read than when it was listed. */
  shrinks = 0

  findObstacle = async () => this.obstacle
  networkObstacle: string | null = null
  findNetworkObstacle = () => this.networkObstacle

  async open(limits: SandboxLimits, network?: SandboxNetwork): Promise<FakeBox> {
    const box = new FakeBox(this, limits, network)
    this.boxes.push(box)
    return box
  }

  /** The boxes that run. */
  get open_boxes(): FakeBox[] {
    return this.boxes.filter(({ isGone }) => !isGone)
  }
}

/** One of its boxes. */
export class FakeBox implements SandboxBox {
  isGone = false
  readonly limits: SandboxLimits
  readonly commands: SandboxCommand[] = []
  readonly #sandbox: FakeSandbox
  readonly #files = new Map<string, { bytes: Buffer; mode: number; version: number }>()
  #changes = 0
  /** Lets a slow command write. */
  readonly go = Promise.withResolvers<void>()
  /** Resolves when a command hangs, or a slow one has begun. */
  readonly hung = Promise.withResolvers<void>()
  readonly #end = Promise.withResolvers<never>()
  /** Resolves when it has ended. */
  readonly closed = Promise.withResolvers<void>()
  readonly ended = this.closed.promise

  readonly network: SandboxNetwork | undefined

  constructor(sandbox: FakeSandbox, limits: SandboxLimits, network?: SandboxNetwork) {
    this.#sandbox = sandbox
    this.network = network
    this.limits = limits
    this.#end.promise.catch(() => undefined)
  }

  async run(command: SandboxCommand): Promise<CommandResult> {
    if (this.isGone) throw new SandboxGone()
    this.commands.push(command)
    const [verb, path = '', ...words] = command.text.split(' ')
    if (verb === 'hang') return this.#hang(command)
    if (verb === 'late') return { stdout: '', stderr: '', exitCode: null }
    if (verb === 'slow') await this.#waitForGo()
    if (verb === 'remove') this.#files.delete(path)
    if (verb === 'write' || verb === 'slow') this.#set(path, Buffer.from(words.join(' ')), 0o644)
    if (verb === 'large') this.#set(path, Buffer.alloc(Number(words[0])), 0o644)
    const found = this.#files.get(path)?.bytes.toString() ?? ''
    return { stdout: verb === 'read' ? found : '', stderr: '', exitCode: 0 }
  }

  #waitForGo(): Promise<void> {
    this.hung.resolve()
    return this.go.promise
  }

  #hang({ cancellation }: SandboxCommand): Promise<never> {
    this.hung.resolve()
    const cancelled = new Promise<never>((_, reject) => cancellation.listen(reject))
    return Promise.race([cancelled, this.#end.promise])
  }

  #set(path: string, bytes: Buffer, mode: number): void {
    this.#files.set(path, { bytes, mode, version: this.#changes++ })
  }

  async write(files: AsyncIterable<WrittenFile>): Promise<void> {
    for await (const { path, mode, pieces } of files)
      this.#set(path, Buffer.concat(await Array.fromAsync(pieces)), mode)
  }

  list = async () => ({
    files: [...this.#files].map(([path, { bytes, mode, version }]) => ({
      ...{ path, mode, size: bytes.length, version: String(version) },
    })),
    left: 0,
  })

  async *read(files: ListedFile[]): AsyncIterable<Uint8Array> {
    for (const { path } of files) {
      const bytes = this.#files.get(path)?.bytes ?? Buffer.alloc(0)
      const shrinks = this.#sandbox.shrinks > 0 && bytes.length > 0
      if (shrinks) this.#sandbox.shrinks -= 1
      yield shrinks ? bytes.subarray(1) : bytes
    }
  }

  async close(): Promise<void> {
    this.isGone = true
    this.closed.resolve()
    this.#end.reject(new SandboxGone())
  }
}
