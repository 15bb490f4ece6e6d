import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { existsSync, readdirSync } from 'node:fs'
import { hostname } from 'node:os'
import { SANDBOXES } from '../../../src/network/sandboxes/registry.ts'
import {
  MOST_ENTRIES,
  type Sandbox,
  type SandboxBox,
} from '../../../src/network/sandboxes/sandbox.ts'
import { LIMITS, readHome, runIn } from '../../suites/sandbox.ts'
import { listEscapes, PLACES } from '../../support/sandboxes/escapes.ts'
import { findProcesses, type Host, openHost } from '../../support/sandboxes/host.ts'

const host: Host = await openHost()
afterAll(() => host.close())
const escapes = listEscapes(host)
const hadPreload = existsSync('/etc/ld.so.preload')

for (const sandbox of SANDBOXES) {
  const obstacle = await sandbox.findObstacle()
  if (obstacle === null) testEscapes(sandbox)
  else test.skip(`${sandbox.name} does not hold here: ${obstacle}`, () => undefined)
}

test('there are at least 60 attempts, and some of them succeed outside of a sandbox', async () => {
  expect(escapes.length).toBeGreaterThanOrEqual(60)
  const outside = escapes.filter(({ worksOutside }) => worksOutside)
  for (const { name, command } of outside) {
    const ran = Bun.spawn(['bash', '-c', command], { cwd: host.directory, stdin: 'ignore' })
    const said = await new Response(ran.stdout).text()
    expect([name, said.includes(host.secret) || said.includes('ESCAPED')]).toEqual([name, true])
  }
  for (const made of ['link', 'all']) Bun.spawnSync(['rm', '-f', `${host.directory}/${made}`])
})

/** Tries to get out of a sandbox in every way, and to take more than it has. */
function testEscapes(sandbox: Sandbox): void {
  describe(`X-45 out of ${sandbox.name}:`, () => {
    let box: SandboxBox
    let reached = 0
    beforeAll(async () => {
      box = await sandbox.open(LIMITS)
      reached = host.reached
    })
    afterAll(() => box.close())

    /** The box, or another one if the last command ended it. */
    const renew = async () => {
      if (box.isGone) box = await sandbox.open(LIMITS)
      return box
    }

    test.each(escapes.map(attempt => [attempt.name, attempt] as const))(
      '%s',
      async (_, { command, timeoutMs = 10_000, isInside = false }) => {
        const { stdout, stderr } = await runIn(await renew(), command, { timeoutMs })
        const said = `${stdout}\n${stderr}`
        expect(said).not.toContain(host.secret)
        // A file system of its own has places of the same names.
        if (!(isInside && sandbox.name === 'just-bash')) expect(stdout).not.toContain('ESCAPED')
        expect(findProcesses(host.marker)).toEqual([])
        expect(host.reached).toBe(reached)
      },
    )

    test('nothing of it is on the host', async () => {
      expect(readdirSync(host.directory).sort()).toEqual(['host.sock', 'secret.txt'])
      expect(hostname()).toBe(host.hostname)
      for (const place of PLACES) expect(existsSync(`${place}pwned`)).toBe(false)
      expect(existsSync('/etc/ld.so.preload')).toBe(hadPreload)
    })

    test('what is killed as it begins leaves nothing', async () => {
      for (let timeoutMs = 1; timeoutMs <= 20; timeoutMs++) {
        await runIn(await renew(), `sleep ${host.marker} & sleep ${host.marker}`, { timeoutMs })
        expect(findProcesses(host.marker)).toEqual([])
      }
    })

    test('programs and settings of a home are not those that read it', async () => {
      const own = await sandbox.open(LIMITS)
      const evil =
        'for p in find cat tar xargs bash prlimit; do printf "#!/bin/bash\\necho ESCAPED" > $p; chmod +x $p; done'
      await runIn(
        own,
        `${evil}; cp bash .bashrc; cp bash .profile; cp bash .bash_profile; printf ok > ok`,
      )
      await runIn(own, 'printf 1 > "--checkpoint-action=exec=sh"; printf 2 > "-rf"')
      const home = await readHome(own)
      expect([home.ok, home['-rf'], home['--checkpoint-action=exec=sh']]).toEqual(['ok', '2', '1'])
      expect((await runIn(own, 'echo fine')).stdout).toBe('fine\n')
      await own.close()
    })

    describe('no more than its part:', () => {
      let own: SandboxBox
      beforeAll(async () => {
        own = await sandbox.open(LIMITS)
      })
      afterAll(() => own.close())
      const run = async (text: string, timeoutMs = 10_000) => {
        if (own.isGone) own = await sandbox.open(LIMITS)
        return runIn(own, text, { timeoutMs })
      }
      const sumHome = async () => (await own.list()).files.reduce((sum, { size }) => sum + size, 0)

      test('processes', async () => {
        const bomb = `f() { bash -c 'exec sleep ${host.marker}' & f & f; }; f`
        await run(bomb, 300)
        expect(findProcesses(host.marker)).toEqual([])
      })

      test('processes that are counted', async () => {
        const fork = 'while ($n < 200) { $p = fork; last if !defined $p; $p or sleep, exit; $n++ }'
        const counted = `perl -e '$n = 0; ${fork} print $n; kill 9, -1'`
        const { stdout } = await run(counted, 5_000)
        expect(Number(stdout || 0)).toBeLessThan(LIMITS.processes)
      })

      test('memory', async () => {
        const { stdout } = await run(`perl -e '$x = "a" x (2 ** 30); print "ESCAPED" if length $x'`)
        expect(stdout).toBe('')
        // biome-ignore lint/suspicious/noTemplateCurlyInString: it is bash's
        const double = 'a=aaaaaaaaaaaaaaaa; while [ ${#a} -lt 300000000 ]; do a=$a$a; done'
        expect((await run(`${double}; echo ESCAPED`)).stdout).toBe('')
      })

      const grow =
        sandbox.name === 'just-bash'
          ? 'x=$(printf "%01000d" 0); for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do x=$x$x; done; echo "$x$x$x" >'
          : 'head -c 64000000 /dev/zero >'
      test.each(['.', '/tmp', '/dev/shm'])('bytes in %s', async place => {
        const { stdout } = await run(`${grow} ${place}/big; wc -c < ${place}/big`)
        expect(Number(stdout.trim() || 0)).toBeLessThanOrEqual(LIMITS.homeBytes)
        await run(`rm -f ${place}/big`)
      })

      test('bytes of many files together', async () => {
        await run('for i in {1..40}; do head -c 1000000 /dev/zero > z$i; done')
        expect(await sumHome()).toBeLessThanOrEqual(LIMITS.homeBytes)
        await run('rm -f z*')
      })

      test('a file with a hole of 10 GB', async () => {
        await run('truncate -s 10G sparse; dd if=/dev/zero of=seek bs=1 count=1 seek=10000000000')
        expect(await sumHome()).toBeLessThanOrEqual(LIMITS.homeBytes)
        await run('rm -f sparse seek')
      })

      test('100,000 files', async () => {
        await run('mkdir -p many; for i in {1..100000}; do : > many/$i || break; done', 20_000)
        const { files } = await own.list()
        expect(files.length).toBeLessThanOrEqual(MOST_ENTRIES)
        await run('rm -rf many')
      })

      test('output without end', async () => {
        const { stdout } = await run('while true; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyy; done', 300)
        expect(stdout.length).toBeLessThanOrEqual(16_384)
      })

      test('time', async () => {
        const { exitCode } = await run('trap "" TERM INT HUP; while :; do sleep 0.01; done', 300)
        expect(exitCode).not.toBe(0)
        expect((await run('echo alive')).stdout).toBe('alive\n')
      })

      test('special files and strange names are not read', async () => {
        await run(
          'mkfifo pipe; perl -MSocket -e \'socket(S, PF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un("sock"))\'; : > "$(printf "bad\\xff")"; : > "$(printf "new\\nline")"; mkdir -p "$(printf "x\\xfe")"; : > x*/inside',
        )
        const paths = (await own.list()).files.map(({ path }) => path)
        expect(paths).toContain('new\nline')
        expect(paths).not.toContain('pipe')
        expect(paths).not.toContain('sock')
        expect(paths.every(path => path.isWellFormed() && !path.includes('\ufffd'))).toBe(true)
        await readHome(own)
      })
    })
  })
}
