import { expect, test } from 'bun:test'
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
import { listBlocks } from './support/documents.ts'
import { PROGRAM } from './support/server.ts'
import { readUnit, StandInForSystemd } from './support/systemd.ts'

const ROOT = resolve(import.meta.dir, '..')
const onLinux = test.skipIf(process.platform !== 'linux')

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
  readonly root = mkdtempSync(join(tmpdir(), 'gateway-reader-'))
  readonly elsewhere: string[] = []
  readonly #shell: Subprocess<'pipe', 'pipe', 'inherit'>
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>
  readonly #systemd: StandInForSystemd
  #text = ''

  private constructor(systemd: StandInForSystemd, env: Record<string, string>) {
    this.#systemd = systemd
    this.#install()
    this.#shell = Bun.spawn(['bash', '--norc', '--noprofile'], {
      cwd: join(this.root, 'home/release'),
      env: {
        ...process.env,
        HOME: join(this.root, 'home'),
        PATH: `${this.root}/shims:${this.root}/usr/local/bin:${this.root}/home/.local/bin:${process.env.PATH}`,
        ...env,
      },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#reader = this.#shell.stdout.getReader()
  }

  static async open(env: Record<string, string> = {}): Promise<Machine> {
    const systemd = await StandInForSystemd.open(mkdtempSync(join(tmpdir(), 'gateway-notify-')))
    return new Machine(systemd, env)
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
    return this.run(this.#place(line))
  }

  /** Runs a line in the shell as it stands. */
  async run(line: string): Promise<string> {
    this.#shell.stdin.write(`{ ${line}\n} < /dev/null 2>&1; printf '\\0%s\\0' $?\n`)
    await this.#shell.stdin.flush()
    for (;;) {
      const [printed = '', code, rest] = this.#text.split('\0')
      if (code !== undefined && rest !== undefined) {
        this.#text = rest
        if (code !== '0') throw new Error(`${line}\nended with ${code}:\n${printed}`)
        return printed
      }
      const { value, done } = await this.#reader.read()
      if (done) throw new Error(`${line}\nended the shell`)
      this.#text += new TextDecoder().decode(value)
    }
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
    return line
      .replaceAll(/(?<![\w./])\/(etc|var|usr\/local)\b/g, `${this.root}/$1`)
      .replaceAll('127.0.0.1:8080', `127.0.0.1:${this.#systemd.port}`)
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
    for (const name of ['gateway.service', 'takeover.conf']) {
      const path = join(archive, 'deploy', name)
      this.#write(path, this.#place(readFileSync(join(ROOT, 'deploy', name), 'utf8')))
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#systemd[Symbol.asyncDispose]()
    this.#shell.kill('SIGKILL')
    await this.#shell.exited
    rmSync(this.root, { recursive: true, force: true })
  }
}

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
