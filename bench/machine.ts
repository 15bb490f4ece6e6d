import { statSync } from 'node:fs'
import { cpus, loadavg, release } from 'node:os'
import { canPin } from './children.ts'
import { getGatewayBinary, type Rival } from './contenders.ts'
import { readCpu, readMachineCpu } from './procfs.ts'

/**
 * How quiet the machine was: load averages before and after, the cores that others used, and those
 * that the host took.
 */
export type Machine = {
  loadBefore: number[]
  loadAfter: number[]
  otherCores: number
  stolenCores: number
  seconds: number
}

/** The versions of the software and hardware of a run. */
export type Versions = {
  bun: string
  kernel: string
  processor: string
  cores: number
  pinned: boolean
  binary?: string
  binaryMb?: number
}

/** Starts to observe the machine. The returned function reports what happened since. */
export function createMachineReader(): () => Machine {
  const loadBefore = loadavg()
  const before = takeReading()
  return () => {
    const after = takeReading()
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

/** Reads the versions of this run. */
export function readVersions(rival: Rival): Versions {
  const [processor] = cpus()
  const common = {
    bun: Bun.version,
    kernel: release(),
    processor: processor?.model ?? '?',
    cores: cpus().length,
    pinned: canPin,
  }
  if (rival !== 'ours') return common
  const binary = getGatewayBinary()
  const version = Bun.spawnSync([binary, '--version'], { timeout: 5_000 }).stdout.toString().trim()
  return { ...common, binary: `${binary} ${version}`, binaryMb: statSync(binary).size / 1024 ** 2 }
}

function takeReading() {
  return { at: performance.now() * 1000, own: readCpu(process.pid), ...readMachineCpu() }
}
