import { statSync } from 'node:fs'
import { cpus, loadavg, release } from 'node:os'
import { canPin } from './children.ts'
import { gatewayBinary, type Rival } from './contenders.ts'
import { cpuOf, machineCpu } from './procfs.ts'

/** How quiet the machine was: load averages before and after, the cores others kept busy, the share the host took. */
export type Machine = {
  loadBefore: number[]
  loadAfter: number[]
  otherCores: number
  stolenCores: number
  seconds: number
}

/** What was measured, on what. */
export type Versions = {
  bun: string
  kernel: string
  processor: string
  cores: number
  pinned: boolean
  binary?: string
  binaryMb?: number
}

/** Starts to watch the machine; the returned function tells how it was since. */
export function machineReader(): () => Machine {
  const loadBefore = loadavg()
  const before = reading()
  return () => {
    const after = reading()
    const elapsed = after.at - before.at
    const others = after.worked - before.worked - (after.own - before.own)
    return {
      loadBefore,
      loadAfter: loadavg(),
      otherCores: Math.max(0, others / elapsed),
      stolenCores: (after.stolen - before.stolen) / elapsed,
      seconds: elapsed / 1e6,
    }
  }
}

/** Names the versions of this run. */
export function versions(rival: Rival): Versions {
  const [processor] = cpus()
  const common = {
    bun: Bun.version,
    kernel: release(),
    processor: processor?.model ?? '?',
    cores: cpus().length,
    pinned: canPin,
  }
  if (rival !== 'ours') return common
  const binary = gatewayBinary()
  const said = Bun.spawnSync([binary, '--version'], { timeout: 5_000 }).stdout.toString().trim()
  return { ...common, binary: `${binary} ${said}`, binaryMb: statSync(binary).size / 1024 ** 2 }
}

function reading() {
  return { at: performance.now() * 1000, own: cpuOf(process.pid), ...machineCpu() }
}
