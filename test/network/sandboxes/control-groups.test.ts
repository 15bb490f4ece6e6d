import { afterAll, describe, expect, test } from 'bun:test'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openControlGroups } from '../../../src/network/sandboxes/bubblewrap/control-groups.ts'
import { bubblewrap } from '../../../src/network/sandboxes/bubblewrap.ts'
import { LIMITS, runIn } from '../../suites/sandbox.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-groups-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const PID = 4242

/** Makes directories as the kernel shows control groups, with this process in one of them. */
function makeTree({
  path = '/given',
  mountRoot = '/',
  processes = [PID],
  controllers = 'cpuset cpu io memory pids',
  enabled = '',
}: {
  path?: string
  mountRoot?: string
  processes?: number[]
  controllers?: string
  enabled?: string
}) {
  const at = mkdtempSync(join(root, 'tree-'))
  const group = join(at, 'cgroup', path.slice(mountRoot === '/' ? 0 : mountRoot.length))
  mkdirSync(group, { recursive: true })
  const given = path.endsWith('/gateway') ? join(group, '..') : group
  writeFileSync(join(group, 'cgroup.procs'), processes.map(pid => `${pid}\n`).join(''))
  writeFileSync(join(given, 'cgroup.controllers'), `${controllers}\n`)
  writeFileSync(join(given, 'cgroup.subtree_control'), `${enabled}\n`)
  writeFileSync(join(at, 'self'), `4:memory:/old\n0::${path}\n`)
  writeFileSync(
    join(at, 'mounts'),
    `24 1 0:22 / /proc rw - proc proc rw\n` +
      `25 1 0:23 ${mountRoot} ${at}/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n`,
  )
  const places = { mounts: join(at, 'mounts'), self: join(at, 'self'), pid: PID }
  const read = (name: string) => readFileSync(join(given, name), 'utf8')
  return { places, given, read, open: () => openControlGroups(places) }
}

describe('control groups', () => {
  test('that were given to the gateway have it in a group below, and bound the others', () => {
    const { given, read, open } = makeTree({})
    expect(open()).toEqual({ directory: given, controllers: ['memory', 'pids', 'cpu'] })
    expect(read('gateway/cgroup.procs')).toBe(String(PID))
    expect(read('cgroup.subtree_control')).toBe('+memory +pids +cpu')
  })

  test('in which the gateway is below already stay as they are', () => {
    const { given, read, open } = makeTree({ path: '/given/gateway', enabled: 'cpu memory pids' })
    expect(open()).toMatchObject({ directory: given })
    expect(read('cgroup.subtree_control')).toBe('cpu memory pids\n')
  })

  test('are found where only a part of the tree is mounted', () => {
    const { given, open } = makeTree({ path: '/pod/given', mountRoot: '/pod' })
    expect(open()).toMatchObject({ directory: given })
    const own = makeTree({ path: '/pod', mountRoot: '/pod' })
    expect(own.open()).toMatchObject({ directory: own.given })
    const other = makeTree({ path: '/pods', mountRoot: '/pods' })
    writeFileSync(other.places.self, '0::/elsewhere\n')
    expect(other.open()).toBe('the host has no control groups v2')
  })

  test('bound what the host gives', () => {
    expect(makeTree({ controllers: 'pids hugetlb' }).open()).toMatchObject({
      controllers: ['pids'],
    })
    const { open, given } = makeTree({ controllers: 'hugetlb' })
    expect(open()).toBe('this control group has neither memory, pids nor cpu')
    expect(existsSync(join(given, 'gateway'))).toBe(false)
  })

  test('that others share are left alone', () => {
    const { given, open } = makeTree({ processes: [1, PID] })
    expect(open()).toBe('this control group has other processes than the gateway')
    expect(existsSync(join(given, 'gateway'))).toBe(false)
  })

  test('that are not there, or not the gateway’s, are no obstacle but a reason', () => {
    const { places, given, open } = makeTree({})
    for (const self of ['4:memory:/old\n', '']) {
      writeFileSync(places.self, self)
      expect(open()).toBe('the host has no control groups v2')
    }
    writeFileSync(places.self, '0::/given\n')
    rmSync(join(given, 'cgroup.subtree_control'))
    expect(open()).toBe('this control group is not the gateway’s: ENOENT')
    expect(openControlGroups({ ...places, mounts: join(root, 'none') })).toBe(
      'the host has no control groups v2',
    )
  })

  test('of gateways that were killed are removed, and no others', () => {
    const { given, open } = makeTree({})
    const names = ['container-4194999-0', `container-${process.ppid}-3`, 'container', 'others-1-1']
    for (const name of names) mkdirSync(join(given, name))
    open()
    expect(
      readdirSync(given)
        .filter(name => names.includes(name))
        .sort(),
    ).toEqual(names.slice(1).sort())
  })
})

const obstacle = await bubblewrap.findObstacle()

test.skipIf(obstacle !== null)(
  `a command of bubblewrap is ended before the gateway where memory runs out${obstacle ? `: ${obstacle}` : ''}`,
  async () => {
    const box = await bubblewrap.open(LIMITS)
    expect((await runIn(box, 'cat /proc/self/oom_score_adj')).stdout).toBe('1000\n')
    await box.close()
  },
)

/** Makes a control group for a process of its own; null where this host gives none. */
function makeGivenGroup(): string | null {
  const mount = /^(?:\S+ ){4}(\S+) .* - cgroup2 /m.exec(
    readFileSync('/proc/self/mountinfo', 'utf8'),
  )
  const own = /^0::(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1]
  if (!mount?.[1] || own === undefined) return null
  const place = join(mount[1], own)
  for (const parent of [place, join(place, '..'), mount[1]]) {
    const group = join(parent, `gateway-test-${process.pid}`)
    try {
      mkdirSync(group)
      const controllers = readFileSync(join(group, 'cgroup.controllers'), 'utf8')
      if (['memory', 'pids', 'cpu'].every(name => controllers.includes(name))) return group
      rmdirSync(group)
    } catch {}
  }
  return null
}

const group = process.platform === 'linux' && obstacle === null ? makeGivenGroup() : null

describe.skipIf(group === null)(
  `a delegated control group${group === null ? ' (this host gives none with memory, pids and cpu)' : ''}`,
  () => {
    const given = group ?? ''
    afterAll(() => {
      for (const name of [...readdirSync(given).filter(name => name === 'gateway'), ''])
        rmdirSync(join(given, name))
    })

    /** Runs a process that has the group to itself, once nothing of the last one is left. */
    async function run(work: string) {
      while (/populated 1/.test(readFileSync(join(given, 'cgroup.events'), 'utf8')))
        await Bun.sleep(5)
      const script = join(import.meta.dir, '../../support/sandboxes/bounded.ts')
      const enter = 'echo 0 > "$0/cgroup.procs" && exec "$@"'
      // What the last one has left would keep processes out of the group itself.
      const at = existsSync(join(given, 'gateway')) ? join(given, 'gateway') : given
      const child = Bun.spawn(['sh', '-c', enter, at, process.execPath, script, given, work], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      const said = await new Response(child.stdout).text()
      await child.exited
      return said === '' ? child.signalCode : JSON.parse(said)
    }

    test('bounds the memory and the processors of a container as a whole', async () => {
      const { held, throttled, ...said } = await run('try')
      // 80 MiB hold no more than three of 24 MiB. The home outlives what is ended.
      expect([1, 2, 3]).toContain(held)
      expect(Number(throttled)).toBeGreaterThan(0)
      expect(said).toEqual({
        ...{ obstacle: null, missing: null, burnt: 'burnt', file: 'kept', groups: [], own: true },
      })
    })

    test('has nothing left of a gateway that was killed, after the next has begun', async () => {
      expect(await run('die')).toBe('SIGKILL')
      expect(readdirSync(given).some(name => name.startsWith('container-'))).toBe(true)
      expect(await run('look')).toEqual({ obstacle: null, missing: null, groups: [], own: true })
    })
  },
)
