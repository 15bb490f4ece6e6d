import type { SandboxLimits } from '../sandbox.ts'

/** What the Worker is asked. The first job opens it. */
export type ShellJob =
  | { type: 'open'; limits: SandboxLimits }
  | { type: 'run'; text: string; timeoutMs: number; maxOutput: number }
  | { type: 'write'; path: string; mode: number; bytes: Uint8Array }
  | { type: 'list' }
  | { type: 'read'; path: string }

/** What it answers, or why it cannot. */
export type ShellAnswer = { result: unknown } | { error: string }
