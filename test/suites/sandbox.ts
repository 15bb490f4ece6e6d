import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Cancellation } from '../../src/base/cancellation.ts'
import { GatewayError } from '../../src/base/errors.ts'
import {
  HOME,
  type Sandbox,
  type SandboxBox,
  type WrittenFile,
} from '../../src/network/sandboxes/sandbox.ts'

/** Limits that a machine notices little of, whatever a command tries. */
export const LIMITS = {
  homeBytes: 16 * 1024 * 1024,
  memoryBytes: 192 * 1024 * 1024,
  processes: 24,
  cpus: 1,
}

/** Runs a command as long as it needs. */
export const runIn = (box: SandboxBox, text: string, more: object = {}) =>
  box.run({
    ...{ text, timeoutMs: 20_000, maxOutput: 16_384, cancellation: new Cancellation() },
    ...more,
  })

/** Makes files for a home. */
export async function* makeFiles(
  contents: Record<string, string>,
  mode = 0o644,
): AsyncIterable<WrittenFile> {
  for (const [path, text] of Object.entries(contents)) {
    const bytes = Buffer.from(text)
    yield { path, mode, size: bytes.length, pieces: iterate(bytes) }
  }
}

async function* iterate(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes
}

/** Reads files of a home as one text. */
export const readHome = async (box: SandboxBox): Promise<Record<string, string>> => {
  const { files } = await box.list()
  const bytes = Buffer.concat(await Array.fromAsync(box.read(files)))
  let at = 0
  return Object.fromEntries(
    files.map(({ path, size }) => {
      at += size
      return [path, bytes.subarray(at - size, at).toString()]
    }),
  )
}

/** Tests what every sandbox promises. */
export function testSandbox(sandbox: Sandbox): void {
  describe(`${sandbox.name}:`, () => {
    let box: SandboxBox
    beforeAll(async () => {
      expect(await sandbox.findObstacle()).toBeNull()
      box = await sandbox.open(LIMITS)
    })
    afterAll(() => box.close())

    test('a command starts in an empty home, and tells what it printed and how it ended', async () => {
      const said = await runIn(box, 'pwd; ls -A; echo oh >&2; exit 3')
      expect(said).toEqual({ stdout: `${HOME}\n`, stderr: 'oh\n', exitCode: 3 })
    })

    test('files stay between commands, variables do not', async () => {
      await runIn(box, 'mkdir -p d; printf ä > d/a.txt; X=1; export X; cd d')
      expect(await runIn(box, 'pwd; cat d/a.txt; echo "$X"')).toMatchObject({
        stdout: `${HOME}\nä\n`,
      })
    })

    test('files come and go with their bytes, modes and names', async () => {
      const long = `${'deep/'.repeat(30)}${'n'.repeat(120)}.txt`
      const files = { [long]: 'long', 'x y.sh': 'echo ran', 'new\nline': '', 'ü.txt': 'ö' }
      await box.write(makeFiles(files, 0o755))
      expect((await runIn(box, 'bash "./x y.sh"')).stdout).toBe('ran\n')
      expect(await readHome(box)).toEqual({ ...files, 'd/a.txt': 'ä' })
      const { files: listed } = await box.list()
      expect(listed.find(({ path }) => path === 'x y.sh')).toMatchObject({ mode: 0o755, size: 8 })
      expect(listed.find(({ path }) => path === 'd/a.txt')?.mode).toBe(0o644)
    })

    test('a file that changes has another version, and all others have the same', async () => {
      const versionsOf = async () =>
        new Map((await box.list()).files.map(({ path, version }) => [path, version]))
      await runIn(box, 'printf 1 > one; printf 2 > two')
      const before = await versionsOf()
      await runIn(box, 'printf 3 > one; cat two')
      const after = await versionsOf()
      expect(after.get('one')).not.toBe(before.get('one') ?? '')
      expect(after.get('two')).toBe(before.get('two') ?? '')
    })

    test('a file replaces a link of its name', async () => {
      await runIn(box, 'printf kept > target; ln -s target link')
      await box.write(makeFiles({ link: 'new' }))
      const home = await readHome(box)
      expect([home.target, home.link]).toEqual(['kept', 'new'])
    })

    test('output is cut at its limit, in whole characters', async () => {
      const { stdout, stderr } = await runIn(box, 'printf "aä𝄞b"; printf 123456 >&2', {
        maxOutput: 3,
      })
      expect([stdout, stderr]).toEqual(['aä', '123'])
    })

    test('links are no files, and are counted', async () => {
      const before = await box.list()
      await runIn(box, 'ln -s /etc/passwd a; ln -s nowhere b; printf c > c')
      const { files, left } = await box.list()
      expect([files.length, left]).toEqual([before.files.length + 1, before.left + 2])
      expect(files.map(({ path }) => path)).not.toContainAnyValues(['a', 'b'])
    })

    test('a command that is not wanted any more ends with the reason', async () => {
      const other = await sandbox.open(LIMITS)
      const cancellation = new Cancellation()
      const reason = new GatewayError('unmapped', 'The client left')
      const running = runIn(other, 'while true; do sleep 1; done', { cancellation })
      cancellation.cancel(reason)
      expect(await running.catch(thrown => thrown)).toBe(reason)
      await other.close()
      expect(other.isGone).toBe(true)
      expect(await runIn(other, 'true').catch(({ message }) => message)).toBe(
        'The container has ended',
      )
    })

    test('a command that takes too long has no exit code', async () => {
      const other = await sandbox.open(LIMITS)
      const said = await runIn(other, 'while true; do sleep 0.01; done', { timeoutMs: 200 })
      expect(said.exitCode).toBeNull()
      await other.close()
    })

    test('what is no command is a failure, and not of the box', async () => {
      expect((await runIn(box, 'if')).exitCode).not.toBe(0)
      expect((await runIn(box, 'echo still')).stdout).toBe('still\n')
    })
  })
}
