import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import type { Subprocess } from 'bun'
import { hashSecret } from '../src/base/credential.ts'
import { listBlocks } from './support/documents.ts'
import { PROGRAM } from './support/server.ts'
import { readUnit, StandInForSystemd } from './support/systemd.ts'
import { completion, json, startUpstream, stream, type Upstream } from './support/upstream.ts'

const ROOT = resolve(import.meta.dir, '..')
// The pages name the archive of this system.
const onLinux = test.skipIf(process.platform !== 'linux' || process.arch !== 'x64')

/** What a reader pastes of a page: its blocks for the shell, below a heading or all of them. */
function listPasted(path: string, heading?: string): string[] {
  const text = readFileSync(join(ROOT, path), 'utf8')
  const parts = text.split(/^(?=##+ )/m)
  const found =
    heading === undefined ? parts : parts.filter(part => part.includes(`# ${heading}\n`))
  const blocks = found.flatMap(part => listBlocks({ path, text: part }))
  return blocks.filter(({ language }) => language === 'sh').map(({ code }) => code)
}

/** Commands of other programs, which change the machine that they run on: they are only recorded. */
const ELSEWHERE = /^(docker|kubectl|npm|apt) /

/**
 * The machine of a reader: what they paste runs in one shell, line by line. Directories of the
 * system are below a directory of its own, and so is the archive of a release.
 */
class Machine implements AsyncDisposable {
  readonly root: string
  readonly elsewhere: string[] = []
  readonly #shell: Subprocess<'pipe', 'pipe', 'inherit'>
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>
  readonly #systemd: StandInForSystemd
  readonly #servers: Subprocess[] = []
  /** Addresses of the web, and what stands for them here. */
  readonly #replaced: Record<string, string>
  /** Where the server is that the pages have at 127.0.0.1:8080. */
  #address: string
  #text = ''

  private constructor(
    root: string,
    systemd: StandInForSystemd,
    env: Record<string, string>,
    replaced: Record<string, string>,
  ) {
    this.root = root
    this.#systemd = systemd
    this.#replaced = replaced
    this.#address = `127.0.0.1:${systemd.port}`
    this.#install()
    this.#shell = Bun.spawn(['bash', '--norc', '--noprofile'], {
      cwd: join(this.root, 'home/release'),
      env: {
        ...process.env,
        HOME: join(this.root, 'home'),
        PATH: `${this.root}/shims:${this.root}/usr/local/bin:${this.root}/home/.local/bin:${process.env.PATH}`,
        GATEWAY_PORT: '0',
        ...env,
      },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#reader = this.#shell.stdout.getReader()
  }

  static async open(
    env: Record<string, string> = {},
    replaced: Record<string, string> = {},
  ): Promise<Machine> {
    const root = mkdtempSync(join(tmpdir(), 'gateway-reader-'))
    return new Machine(root, await StandInForSystemd.open(root), env, replaced)
  }

  /** Pastes a block, and returns what it printed. Throws for a line that fails. */
  async paste(code: string): Promise<string> {
    let printed = ''
    for (const line of code
      .trim()
      .replaceAll(/\\\n\s*/g, '')
      .split('\n'))
      printed += await this.#enter(line)
    return printed
  }

  #enter(line: string): Promise<string> | string {
    if (ELSEWHERE.test(line)) return `${this.elsewhere.push(line)}\n`
    if (line.startsWith('systemctl ')) return this.#control(line.split(' ').slice(1))
    if (line.startsWith('gateway serve')) return this.#serve(line)
    return this.run(this.#place(line))
  }

  /** Starts a server as in another terminal, and waits until it listens. */
  async #serve(line: string): Promise<string> {
    const [cwd = '', ...variables] = (await this.run('pwd; env -0 | tr "\\n\\0" " \\n"')).split(
      '\n',
    )
    const env = Object.fromEntries(variables.map(one => one.split(/=(.*)/s).slice(0, 2)))
    const server = Bun.spawn(['bash', '-c', `exec ${line} 2>&1`], { cwd, env, stdout: 'pipe' })
    this.#servers.push(server)
    let printed = ''
    for await (const bytes of server.stdout) {
      printed += new TextDecoder().decode(bytes)
      const [, address] = /listens on http:\/\/(\S+)\n/.exec(printed) ?? []
      if (address === undefined) continue
      this.#address = address
      return printed
    }
    throw new Error(`${line}\ndid not start:\n${printed}`)
  }

  /**
   * Runs a line in the shell as it stands. It prints to a file: programs may leave a pipe that they
   * share with the shell without blocking, and what is written next fails where nobody has read yet.
   */
  async run(line: string): Promise<string> {
    const path = join(this.root, 'printed')
    this.#shell.stdin.write(`{ ${line}\n} < /dev/null > ${path} 2>&1; echo $?\n`)
    await this.#shell.stdin.flush()
    while (!this.#text.includes('\n')) {
      const { value, done } = await this.#reader.read()
      if (done) throw new Error(`${line}\nended the shell`)
      this.#text += new TextDecoder().decode(value)
    }
    const [code, ...rest] = this.#text.split('\n')
    this.#text = rest.join('\n')
    const printed = readFileSync(path, 'utf8')
    if (code !== '0') throw new Error(`${line}\nended with ${code}:\n${printed}`)
    return printed
  }

  async #control([verb = '', ...names]: string[]): Promise<string> {
    const service = names.some(name => name.startsWith('gateway') && !name.endsWith('.socket'))
    if (verb === 'daemon-reload' || !service) return ''
    const unit = readUnit(join(this.root, 'etc/systemd/system'), 'gateway.service')
    if (/^(enable|start)$/.test(verb)) await this.#systemd.start(unit)
    else if (verb === 'reload') await this.#systemd.reload(unit)
    else if (/^(disable|stop)$/.test(verb)) await this.#systemd.stop()
    else throw new Error(`systemctl ${verb} is not known here`)
    return ''
  }

  /** Puts paths of the system below the root, and the address where the server is. */
  #place(line: string): string {
    return Object.entries(this.#replaced)
      .reduce((text, [from, to]) => text.replaceAll(from, to), line)
      .replaceAll(/(?<![\w./])\/(etc|var|usr\/local)\b/g, `${this.root}/$1`)
      .replaceAll('127.0.0.1:8080', this.#address)
  }

  #write(path: string, text: string): void {
    mkdirSync(dirname(join(this.root, path)), { recursive: true })
    writeFileSync(join(this.root, path), text, { mode: 0o755 })
  }

  #install(): void {
    for (const path of ['etc/systemd/system', 'usr/local/bin', 'var/lib', 'var/backups'])
      mkdirSync(join(this.root, path), { recursive: true })
    // Users are made and changed by root alone.
    this.#write('shims/useradd', '#!/bin/sh\n')
    this.#write('shims/sudo', '#!/bin/sh\nshift 2\nexec env "$@"\n')
    this.#write(
      'shims/install',
      '#!/bin/bash\nexec /usr/bin/install $(printf "%s\\n" "$@" | sed "/^-[og]$/{N;d}")\n',
    )
    const archive = 'home/release/gateway-0.0.0-linux-x64'
    this.#write(`${archive}/gateway`, `#!/bin/sh\nexec ${PROGRAM.join(' ')} "$@"\n`)
    cpSync(join(ROOT, 'deploy'), join(this.root, archive, 'deploy'), { recursive: true })
    const beside = ['man/man1/gateway.1', 'LICENSE', 'LICENSES-OF-PACKAGES.txt']
    const completions = ['gateway.bash', '_gateway', 'gateway.fish'].map(
      one => `completions/${one}`,
    )
    for (const path of [...beside, ...completions]) this.#write(`${archive}/${path}`, '')
    for (const name of ['gateway.service', 'takeover.conf']) {
      const path = join(archive, 'deploy', name)
      this.#write(path, this.#place(readFileSync(join(ROOT, 'deploy', name), 'utf8')))
    }
  }

  /** Packs the archive into a release as `bun run release` leaves it, in the directory of the shell. */
  async pack(): Promise<void> {
    cpSync(join(ROOT, 'deploy/install.sh'), join(this.root, 'home/release/install.sh'))
    await this.run('tar cf archive.tar gateway-0.0.0-linux-x64 && rm -r gateway-0.0.0-linux-x64')
    const path = join(this.root, 'home/release')
    const archive = readFileSync(join(path, 'archive.tar'))
    writeFileSync(join(path, 'gateway-0.0.0-linux-x64.tar.gz'), Bun.gzipSync(archive))
    writeFileSync(join(path, 'gateway-0.0.0-linux-x64.tar.zst'), Bun.zstdCompressSync(archive))
    await this.run('sha256sum gateway-* > SHA256SUMS; printf "%064d  none.zip\\n" 0 >> SHA256SUMS')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const server of this.#servers) server.kill('SIGKILL')
    await Promise.all(this.#servers.map(({ exited }) => exited))
    await this.#systemd[Symbol.asyncDispose]()
    this.#shell.kill('SIGKILL')
    await this.#shell.exited
    rmSync(this.root, { recursive: true, force: true })
  }
}

test('docs/install.md: what it has other programs do names files and commands that there are', async () => {
  await using machine = await Machine.open()
  await machine.run('cd gateway-*-linux-x64')
  const forms = [
    'With npm',
    'On Debian and Ubuntu',
    'In a container',
    'With Compose',
    'On Kubernetes',
  ]
  for (const form of forms) {
    await machine.run('pushd . > /dev/null')
    for (const block of listPasted('docs/install.md', form)) await machine.paste(block)
    await machine.run('popd > /dev/null')
  }
  const programs = new Set(machine.elsewhere.map(line => line.split(' ')[0]))
  expect([...programs]).toEqual(['npm', 'apt', 'docker', 'kubectl'])
  const folders = machine.elsewhere.flatMap(line => /--kustomize (\S+)/.exec(line)?.[1] ?? [])
  expect(folders.filter(folder => !existsSync(join(ROOT, folder, 'kustomization.yaml')))).toEqual(
    [],
  )
  const own = machine.elsewhere.flatMap(
    line => / gateway ((?:init|keys) ?.*)$/.exec(line)?.[1] ?? [],
  )
  expect(own).toHaveLength(4)
  for (const command of own) await machine.run(`./gateway ${command}`)
})

onLinux('docs/install.md: the script installs the program, and removes it', async () => {
  await using machine = await Machine.open()
  await machine.pack()
  const [install = '', remove = ''] = listPasted('docs/install.md', 'With the script')
  expect(await machine.paste(install)).toMatch(/^Installed gateway \S+ in .*\n\d+\.\d+\.\d+$/ms)
  await machine.paste(remove)
  expect(existsSync(join(machine.root, 'home/.local/bin/gateway'))).toBe(false)
})

test('docs/install.md: an archive is checked against sums and signature, and unpacked', async () => {
  await using machine = await Machine.open()
  await machine.pack()
  await machine.run('openssl genpkey -algorithm ed25519 -out key.pem')
  await machine.run('openssl pkey -in key.pem -pubout -out release.pem')
  await machine.run(
    'openssl pkeyutl -sign -inkey key.pem -rawin -in SHA256SUMS -out SHA256SUMS.sig',
  )
  const [sums = '', signature = '', unpack = ''] = listPasted('docs/install.md', 'From an archive')
  expect(await machine.paste(sums)).toContain('gateway-0.0.0-linux-x64.tar.gz: OK')
  expect(await machine.paste(signature)).toContain('Signature Verified Successfully')
  expect(await machine.paste(unpack)).toContain('"version":')
})

onLinux(
  'docs/install.md and docs/upgrade.md lead to a server, to a new one, and back',
  async () => {
    await using machine = await Machine.open()
    await machine.run('cd gateway-*-linux-x64')
    const [install = '', remove = ''] = listPasted('docs/install.md', 'With systemd')
    expect(await machine.paste(install)).toContain('inference')
    const [once = '', backup = '', replace = '', look = '', back = '', restore = '', ...more] =
      listPasted('docs/upgrade.md')
    expect(more).toEqual([])
    const say = (command: string) =>
      machine.paste(`sudo -u gateway GATEWAY_DATA=/var/lib/gateway gateway ${command}`)
    await machine.paste(once)
    await machine.paste(backup)
    await say('keys create --name later')
    await machine.paste(replace)
    expect(await machine.paste(look)).toMatch(/state +serving[\s\S]*every charge has its call/)
    await machine.paste(back)
    expect(await say('keys list')).toContain('later')
    await machine.paste(restore)
    expect(await say('status')).toContain('serving')
    expect(await say('keys list')).not.toContain('later')
    await machine.paste(remove)
    expect(existsSync(join(machine.root, 'var/lib/gateway'))).toBe(false)
    expect(machine.elsewhere).toEqual([])
  },
)

const ask = (upstream: Upstream) => {
  upstream.answer(({ path, body }) => {
    if (path.includes('/models')) return [json({ data: [] })]
    if (path.endsWith('/messages')) return [json(MESSAGE)]
    return String(body).includes('"stream":true')
      ? stream(['Hello ', 'you'])
      : [completion('Hello')]
  })
  return upstream.url
}

const MESSAGE = {
  ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'claude', stop_sequence: null },
  ...{ content: [{ type: 'text', text: 'Hello' }], stop_reason: 'end_turn' },
  usage: { input_tokens: 10, output_tokens: 5 },
}

describe('the README', () => {
  const [first = '', call = '', ...others] = listPasted('README.md')
  let upstream: Upstream
  beforeEach(async () => {
    upstream = await startUpstream()
  })
  afterEach(() => upstream.close())

  onLinux('leads from a release to an answer, without a key', async () => {
    await using machine = await Machine.open()
    await machine.pack()
    const folder = join(machine.root, 'home/release')
    const release = Bun.serve({
      ...{ port: 0, hostname: '127.0.0.1' },
      fetch: ({ url }) => new Response(Bun.file(join(folder, new URL(url).pathname))),
    })
    try {
      await machine.run(`RELEASE=${release.url.origin}`)
      await machine.paste(first)
    } finally {
      await release.stop(true)
    }
    const answer = await machine.paste(call)
    expect(answer).toContain('"model":"sandbox/echo"')
    for (const line of others.flatMap(block => block.trim().split('\n')))
      expect(await machine.paste(line)).toMatch(
        line.includes('Hello') ? /Hello|embedding/ : /limit/,
      )
  })

  test.each([
    ['openai', (url: string) => ({ OPENAI_API_KEY: 'sk-1', OPENAI_BASE_URL: url })],
    ['anthropic', (url: string) => ({ ANTHROPIC_API_KEY: 'sk-1', ANTHROPIC_BASE_URL: url })],
  ])('leads with a key of %s to its answer', async (slug, toEnv) => {
    await using machine = await Machine.open(toEnv(ask(upstream)))
    await machine.run('install -D gateway-*/gateway ~/.local/bin/gateway')
    await machine.paste(first.replace(/^curl .*\n/, ''))
    const answer = await machine.paste(call)
    expect(answer).toContain(`"model":"${slug}/`)
    expect(answer).toContain('"content":"Hello')
  })
})

describe('docs/coming-from-litellm.md', () => {
  const SECRET = 'sk-of-litellm-0123456789'
  const KEYS = [
    { token: hashSecret(SECRET), key_alias: 'ci', team_id: 't1', max_budget: 5, spend: 1 },
    { token: hashSecret('sk-2'), key_alias: 'held', tpm_limit: 100, spend: 0 },
  ]
  const TEAMS = [{ team_id: 't1', team_alias: 'research', max_budget: 50, budget_duration: '30d' }]
  const OPENROUTER = { data: [{ hash: 'f'.repeat(64), name: 'prod', limit: 5 }] }
  let elsewhere: Bun.Server<unknown>
  let upstream: Upstream
  beforeAll(async () => {
    upstream = await startUpstream()
    elsewhere = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      routes: {
        '/key/list': Response.json({ keys: KEYS, total_count: 2, current_page: 1, total_pages: 1 }),
        '/team/list': Response.json(TEAMS),
        '/api/v1/keys': Response.json(OPENROUTER),
      },
    })
  })
  afterAll(async () => {
    await elsewhere.stop(true)
    await upstream.close()
  })

  test('leads from an export to a month whose bill is right', async () => {
    const url = elsewhere.url.origin
    const env = {
      ...{ OPENAI_API_KEY: 'sk-1', OPENAI_BASE_URL: ask(upstream) },
      ...{ LITELLM: url, LITELLM_MASTER_KEY: 'sk-master', CLIENT_KEY: SECRET },
    }
    await using machine = await Machine.open(env, { 'https://openrouter.ai': url })
    await machine.run('install -D gateway-*/gateway ~/.local/bin/gateway')
    const pasted = listPasted('docs/coming-from-litellm.md')
    const [exports = '', show = '', take = '', serve = '', call = '', month = '', ...others] =
      pasted
    await machine.paste(exports)
    expect(await machine.paste(show)).toContain('--yes creates 3 of 3')
    expect(await machine.paste(take)).toContain('Created 3 of 3')
    const rates = await machine.run('gateway guardrails list --json')
    expect(rates).toContain('"tokens_per_minute": 100')
    await machine.paste(serve)
    const answers = await machine.paste(call)
    expect(answers).toContain('"content":"Hello"')
    expect(answers).toContain('"limit":5')
    const cost = await machine.run(
      "gateway usage --json | grep -m1 -o '\"cost\": [0-9.e-]*' | cut -d' ' -f2",
    )
    const day = new Date().toISOString().slice(0, 10)
    await machine.run(`echo date,model,amount_usd > november.csv`)
    await machine.run(`echo ${day},gpt-4o-mini,${cost.trim()} >> november.csv`)
    expect(await machine.paste(month)).toContain('1 compared, 0 differ')
    const [openrouter = '', portkey = '', ...more] = others
    expect(more).toEqual([])
    expect(await machine.paste(openrouter)).toContain('gw-v1-')
    await machine.run('KEY=$(gateway keys create --name me)')
    expect(await machine.paste(portkey)).toContain('"content":"Hello"')
  })
})
