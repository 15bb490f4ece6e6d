/** Serves jobs, on the Worker's side, and tells the thread that waits for it that it runs. */
export function serveJobs<Job>(serve: (job: Job) => unknown): void {
  self.onmessage = ({ data }: MessageEvent<Job | SharedArrayBuffer>) =>
    data instanceof SharedArrayBuffer ? tellRunning(new Int32Array(data)) : serve(data)
}

function tellRunning(isRunning: Int32Array<SharedArrayBuffer>): void {
  Atomics.store(isRunning, 0, 1)
  Atomics.notify(isRunning, 0)
}
