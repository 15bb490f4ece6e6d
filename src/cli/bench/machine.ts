import { statSync } from 'node:fs'
import { cpus, loadavg, release, type } from 'node:os'
import { VERSION } from '../../base/version.ts'
import { canPin } from './children.ts'
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
  gateway: string
  program: string
  programMb: number
  bun: string
  system: string
  processor: string
  cores: number
  pinned: boolean
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

/** Reads the versions of this run, and of the program under test. */
export function readVersions(program: string): Versions {
  const [processor] = cpus()
  return {
    gateway: VERSION,
    program,
    programMb: statSync(program).size / 1024 ** 2,
    bun: Bun.version,
    system: `${type()} ${release()}`,
    processor: processor?.model ?? '?',
    cores: cpus().length,
    pinned: canPin,
  }
}

function takeReading() {
  return { at: performance.now() * 1000, own: readCpu(process.pid), ...readMachineCpu() }
}
