/** What all servers of a store remember: names that are marked for a while. */
export interface Marks {
  /**
   * Marks a name for so many seconds. Of all that do so, at every server, one gets true. Throws 503
   * where the store is away.
   */
  add(name: string, seconds: number): Promise<boolean>
  /** Forgets one. */
  remove(name: string): Promise<void>
  /** Lists those that begin so. */
  list(start: string): Promise<string[]>
}
