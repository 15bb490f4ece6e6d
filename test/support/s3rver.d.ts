declare module 's3rver' {
  /** A server with the protocol of S3, as far as tests use it. It checks the id of the key only. */
  export default class S3rver {
    constructor(options: Record<string, unknown>)
    run(): Promise<{ port: number }>
    close(): Promise<void>
  }
}
