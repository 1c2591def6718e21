// The limit: α-UCB agents and the paper's principal as fast as we know how to write them by hand, on one thread.
//
// It is a yardstick, not a library: rewards are coins, every offer is taken, multiplications and additions are fused,
// and a coin is drawn for each step, not for each pull of an arm, so that it need not wait for the arm. Eight lanes
// (agents, or runs) lie side by side in a 512-bit vector. Randomness has no state: the coin of a lane at step t is
// mix(key + t·PHI) < threshold. Tables hold s[t] = √(α·log t) and root[n] = 1/√n, so that an arm's index is
// mean + s·root, and S/n is S·root².
//
// With AVX-512: gcc -O3 -march=native. Without: clang++ -x c++ -O3 -march=native -DSPLIT, where vectors.h spells the
// same instructions as vectors that the compiler splits.
#include <math.h>
#include <stdint.h>

typedef uint64_t u64;
typedef int64_t i64;

#ifdef SPLIT
#include "vectors.h"
#else
#include <immintrin.h>
typedef __m512d doubles;
typedef __m512i words;
typedef __mmask8 mask;
#define ALL_LANES 0xff
#define NO_LANES 0
#define is_full(m) ((m) == 0xff)
#define lane_in(m, lane) (((m) >> (lane)) & 1)
#endif

#define EACH(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < n; i++)
#define INLINE static inline __attribute__((always_inline))

#define PHI 0x9E3779B97F4A7C15ULL
#define NOTHING -1e300
#define PULLS 0xffffffff  // the lower half of a packed count; the sum of rewards is the upper half

INLINE words splat(u64 x) { return _mm512_set1_epi64(x); }

INLINE words mix(words z) {
    z = _mm512_xor_si512(z, _mm512_srli_epi64(z, 30));
    z = _mm512_mullo_epi64(z, splat(0xBF58476D1CE4E5B9ULL));
    z = _mm512_xor_si512(z, _mm512_srli_epi64(z, 27));
    z = _mm512_mullo_epi64(z, splat(0x94D049BB133111EBULL));
    return _mm512_xor_si512(z, _mm512_srli_epi64(z, 31));
}

INLINE doubles index_of(doubles mean, doubles s, doubles root) { return _mm512_fmadd_pd(s, root, mean); }

INLINE doubles index_at(const double *mean, const double *root, i64 at, doubles s) {
    return index_of(_mm512_loadu_pd(mean + at), s, _mm512_loadu_pd(root + at));
}

// a[0], a[1] or a[2], lane by lane: a[2] in the lanes of m2, a[1] in those of m1, a[0] elsewhere.
INLINE doubles one_of(doubles a0, doubles a1, doubles a2, mask m1, mask m2) {
    return _mm512_mask_mov_pd(_mm512_mask_mov_pd(a0, m1, a1), m2, a2);
}

INLINE words word_of(words a0, words a1, words a2, mask m1, mask m2) {
    return _mm512_mask_mov_epi64(_mm512_mask_mov_epi64(a0, m1, a1), m2, a2);
}

#ifdef __cplusplus
extern "C" {
#endif

// Observing, K = 3: four vectors of lanes at a time, their whole state in local variables. Arrays are [arm][lane];
// every arm was pulled before t0.
#define G 4
void observe_3(i64 lanes, double *mean, double *root, double *sum, i64 *pulls, const u64 *threshold, const u64 *key,
               const double *s_table, const double *root_table, i64 t0, i64 t1) {
    const doubles one = _mm512_set1_pd(1.0);
    for (i64 first = 0; first < lanes; first += 8 * G) {
        doubles mu[3][G], q[3][G], S[3][G];
        words N[3][G], p[3][G], keys[G];
        for (int k = 0; k < 3; k++)
            for (int g = 0; g < G; g++) {
                i64 at = k * lanes + first + 8 * g;
                mu[k][g] = _mm512_loadu_pd(mean + at);
                q[k][g] = _mm512_loadu_pd(root + at);
                S[k][g] = _mm512_loadu_pd(sum + at);
                N[k][g] = _mm512_loadu_si512(pulls + at);
                p[k][g] = _mm512_loadu_si512(threshold + at);
            }
        for (int g = 0; g < G; g++) keys[g] = _mm512_loadu_si512(key + first + 8 * g);

        for (i64 t = t0; t <= t1; t++) {
            doubles s = _mm512_set1_pd(s_table[t]);
            words step = splat((u64)t * PHI);
            EACH(g, G) {
                doubles i0 = index_of(mu[0][g], s, q[0][g]);
                doubles i1 = index_of(mu[1][g], s, q[1][g]);
                doubles i2 = index_of(mu[2][g], s, q[2][g]);
                mask m1 = _mm512_cmp_pd_mask(i1, i0, _CMP_GT_OQ);
                mask m2 = _mm512_cmp_pd_mask(i2, _mm512_max_pd(i0, i1), _CMP_GT_OQ);
                mask pick[3] = {(mask)~(m1 | m2), (mask)(m1 & ~m2), m2};

                words u = mix(_mm512_add_epi64(keys[g], step));
                words limit = word_of(p[0][g], p[1][g], p[2][g], pick[1], pick[2]);
                words n = word_of(N[0][g], N[1][g], N[2][g], pick[1], pick[2]);
                doubles total = one_of(S[0][g], S[1][g], S[2][g], pick[1], pick[2]);
                mask heads = _mm512_cmplt_epu64_mask(u, limit);
                n = _mm512_add_epi64(n, splat(1));
                total = _mm512_mask_add_pd(total, heads, total, one);
                doubles inverse = _mm512_i64gather_pd(n, root_table, 8);
                doubles average = _mm512_mul_pd(total, _mm512_mul_pd(inverse, inverse));
                EACH(k, 3) {
                    N[k][g] = _mm512_mask_mov_epi64(N[k][g], pick[k], n);
                    S[k][g] = _mm512_mask_mov_pd(S[k][g], pick[k], total);
                    mu[k][g] = _mm512_mask_mov_pd(mu[k][g], pick[k], average);
                    q[k][g] = _mm512_mask_mov_pd(q[k][g], pick[k], inverse);
                }
            }
        }

        for (int k = 0; k < 3; k++)
            for (int g = 0; g < G; g++) {
                i64 at = k * lanes + first + 8 * g;
                _mm512_storeu_pd(mean + at, mu[k][g]);
                _mm512_storeu_pd(root + at, q[k][g]);
                _mm512_storeu_pd(sum + at, S[k][g]);
                _mm512_storeu_si512(pulls + at, N[k][g]);
            }
    }
}

// Incentivizing, M = 2 and K = 3: lanes are runs. Arrays are [agent][arm][run]; theta is the factor under the root of
// the paper's bound. A run that has one arm left stands still; *agent_steps counts it until its whole vector is done.
void incentivize_2x3(i64 runs, double *mean, double *root, double *sum, i64 *pulls, const u64 *threshold,
                     const u64 *key, double theta, const double *s_table, const double *root_table, i64 t0, i64 t1,
                     double *paid, i64 *active, i64 *agent_steps) {
    const doubles one = _mm512_set1_pd(1.0), nothing = _mm512_set1_pd(NOTHING), half = _mm512_set1_pd(0.5);
    const doubles scale = _mm512_set1_pd(theta / 4);
    i64 steps = 0;
    for (i64 first = 0; first < runs; first += 8) {
        doubles mu[2][3], q[2][3], S[2][3], bonus[2][3];
        words N[2][3], p[2][3], keys[2];
        mask in[3], done = NO_LANES;
        for (int m = 0; m < 2; m++) {
            for (int k = 0; k < 3; k++) {
                i64 at = (m * 3 + k) * runs + first;
                mu[m][k] = _mm512_loadu_pd(mean + at);
                q[m][k] = _mm512_loadu_pd(root + at);
                S[m][k] = _mm512_loadu_pd(sum + at);
                N[m][k] = _mm512_loadu_si512(pulls + at);
                p[m][k] = _mm512_loadu_si512(threshold + at);
                bonus[m][k] = _mm512_setzero_pd();
            }
            keys[m] = _mm512_loadu_si512(key + m * runs + first);
        }
        for (int k = 0; k < 3; k++) in[k] = ALL_LANES;

        i64 t;
        for (t = t0; t <= t1; t++) {
            // Which arms are still in: upper bound at least the highest lower bound.
            doubles width[3], average[3], highest = nothing;
            for (int k = 0; k < 3; k++) {
                doubles r = _mm512_add_pd(_mm512_mul_pd(q[0][k], q[0][k]), _mm512_mul_pd(q[1][k], q[1][k]));
                width[k] = _mm512_sqrt_pd(_mm512_mul_pd(r, scale));
                average[k] = _mm512_mul_pd(_mm512_add_pd(mu[0][k], mu[1][k]), half);
                highest = _mm512_mask_max_pd(highest, in[k], highest, _mm512_sub_pd(average[k], width[k]));
            }
            for (int k = 0; k < 3; k++)
                in[k] &= _mm512_cmp_pd_mask(_mm512_add_pd(average[k], width[k]), highest, _CMP_GE_OQ) | done;
            done |= (in[0] & ~in[1] & ~in[2]) | (~in[0] & in[1] & ~in[2]) | (~in[0] & ~in[1] & in[2]);
            if (is_full(done)) break;

            // What is wanted: the widest of them, from the agent who has pulled it less.
            doubles widest = _mm512_mask_mov_pd(nothing, in[0], width[0]);
            mask w1 = _mm512_mask_cmp_pd_mask(in[1], width[1], widest, _CMP_GT_OQ);
            widest = _mm512_mask_mov_pd(widest, w1, width[1]);
            mask w2 = _mm512_mask_cmp_pd_mask(in[2], width[2], widest, _CMP_GT_OQ);
            mask wanted[3] = {(mask)~(w1 | w2), (mask)(w1 & ~w2), w2};
            words n0 = word_of(N[0][0], N[0][1], N[0][2], wanted[1], wanted[2]);
            words n1 = word_of(N[1][0], N[1][1], N[1][2], wanted[1], wanted[2]);
            mask second = _mm512_cmplt_epi64_mask(n1, n0);

            doubles s = _mm512_set1_pd(s_table[t]);
            words step = splat((u64)t * PHI);
            EACH(m, 2) {
                mask offered = (m ? second : (mask)~second) & ~done;
                doubles i0 = index_of(mu[m][0], s, q[m][0]);
                doubles i1 = index_of(mu[m][1], s, q[m][1]);
                doubles i2 = index_of(mu[m][2], s, q[m][2]);
                mask m1 = _mm512_cmp_pd_mask(i1, i0, _CMP_GT_OQ);
                mask m2 = _mm512_cmp_pd_mask(i2, _mm512_max_pd(i0, i1), _CMP_GT_OQ);
                mask pick0 = ~(m1 | m2), pick1 = m1 & ~m2, pick2 = m2;
                pick0 = ((pick0 & ~offered) | (wanted[0] & offered)) & ~done;
                pick1 = ((pick1 & ~offered) | (wanted[1] & offered)) & ~done;
                pick2 = ((pick2 & ~offered) | (wanted[2] & offered)) & ~done;

                words u = mix(_mm512_add_epi64(keys[m], step));
                words limit = word_of(p[m][0], p[m][1], p[m][2], pick1, pick2);
                words n = word_of(N[m][0], N[m][1], N[m][2], pick1, pick2);
                doubles total = one_of(S[m][0], S[m][1], S[m][2], pick1, pick2);
                mask heads = _mm512_cmplt_epu64_mask(u, limit);
                n = _mm512_add_epi64(n, splat(1));
                total = _mm512_mask_add_pd(total, heads, total, one);
                doubles inverse = _mm512_i64gather_pd(n, root_table, 8);
                doubles own = _mm512_mul_pd(total, _mm512_mul_pd(inverse, inverse));
#define LEARN(k, pick)                                                                     \
    N[m][k] = _mm512_mask_mov_epi64(N[m][k], pick, n);                                     \
    S[m][k] = _mm512_mask_mov_pd(S[m][k], pick, total);                                    \
    mu[m][k] = _mm512_mask_mov_pd(mu[m][k], pick, own);                                    \
    q[m][k] = _mm512_mask_mov_pd(q[m][k], pick, inverse);                                  \
    bonus[m][k] = _mm512_mask_add_pd(bonus[m][k], pick & offered, bonus[m][k], one);
                LEARN(0, pick0)
                LEARN(1, pick1)
                LEARN(2, pick2)
            }
        }
        steps += (t - t0) * 16;

        for (int m = 0; m < 2; m++)
            for (int k = 0; k < 3; k++) {
                i64 at = (m * 3 + k) * runs + first;
                _mm512_storeu_pd(mean + at, mu[m][k]);
                _mm512_storeu_pd(root + at, q[m][k]);
                _mm512_storeu_pd(sum + at, S[m][k]);
                _mm512_storeu_si512(pulls + at, N[m][k]);
                _mm512_storeu_pd(paid + at, bonus[m][k]);
            }
        for (int k = 0; k < 3; k++)
            for (int lane = 0; lane < 8; lane++) active[k * runs + first + lane] = lane_in(in[k], lane);
    }
    *agent_steps = steps;
}

// The first largest index of n vectors of lanes, arm by arm; arrays are [vector][arm][8].
#define LARGEST(n, best, arm, mean, root, K, s)                                       \
    EACH(g, n) {                                                                      \
        best[g] = index_at(mean, root, g * K * 8, s);                                 \
        arm[g] = _mm512_setzero_si512();                                              \
    }                                                                                 \
    words this_arm = _mm512_setzero_si512();                                          \
    for (i64 k = 1; k < K; k++) {                                                     \
        this_arm = _mm512_add_epi64(this_arm, splat(1));                              \
        EACH(g, n) {                                                                  \
            doubles value = index_at(mean, root, (g * K + k) * 8, s);                 \
            mask larger = _mm512_cmp_pd_mask(value, best[g], _CMP_GT_OQ);             \
            best[g] = _mm512_max_pd(best[g], value);                                  \
            arm[g] = _mm512_mask_mov_epi64(arm[g], larger, this_arm);                 \
        }                                                                             \
    }

// Observing, any K: blocks of `group` vectors of lanes, two of them at a time. Arrays are [block][vector][arm][8];
// counts are packed.
#define U 2
void observe_k(i64 blocks, i64 group, i64 K, double *means, double *roots, u64 *counts, const u64 *thresholds,
               const u64 *keys, const double *s_table, const double *root_table, i64 t0, i64 t1) {
    for (i64 b = 0; b < blocks; b++) {
        i64 start = b * group * K * 8;
        double *mean = means + start, *root = roots + start;
        u64 *count = counts + start;
        const u64 *threshold = thresholds + start, *key = keys + b * group * 8;
        for (i64 t = t0; t <= t1; t++) {
            doubles s = _mm512_set1_pd(s_table[t]);
            words step = splat((u64)t * PHI);
            for (i64 v = 0; v < group; v += U) {
                doubles best[U];
                words arm[U];
                const double *mean_v = mean + v * K * 8, *root_v = root + v * K * 8;
                LARGEST(U, best, arm, mean_v, root_v, K, s)
                EACH(g, U) {
                    i64 own = (v + g) * K * 8;
                    i64 picked[8];
                    u64 u[8];
                    words drawn = mix(_mm512_add_epi64(_mm512_loadu_si512(key + (v + g) * 8), step));
                    _mm512_storeu_si512(picked, arm[g]);
                    _mm512_storeu_si512(u, drawn);
                    EACH(lane, 8) {
                        i64 at = own + picked[lane] * 8 + lane;
                        u64 c = count[at] + 1 + ((u64)(u[lane] < threshold[at]) << 32);
                        count[at] = c;
                        double q = root_table[c & PULLS];
                        root[at] = q;
                        mean[at] = (double)(i64)(c >> 32) * (q * q);
                    }
                }
            }
        }
    }
}

// Incentivizing, any M and K, one run. Arrays are [vector][arm][8], M agents in ⌈M/8⌉ vectors; counts are packed.
// Σ1/N and Σμ̂ are kept up pull by pull and summed afresh now and then. Returns the last step played.
i64 incentivize_k(i64 M, i64 K, double *mean, double *root, u64 *count, const u64 *threshold, const u64 *key,
                  double theta, const double *s_table, const double *root_table, i64 t0, i64 t1, i64 *paid,
                  i64 *active) {
    i64 vectors = (M + 7) / 8, last = t1;
    double inverses[K], means[K], width[K], scale = theta / ((double)(M * M)), each = 1.0 / M;
    i64 arm[vectors * 8];
    u64 u[vectors * 8];

#define SUM_AFRESH                                              \
    for (i64 k = 0; k < K; k++) {                               \
        double r = 0, g = 0;                                    \
        for (i64 m = 0; m < M; m++) {                           \
            i64 at = (m >> 3) * K * 8 + k * 8 + (m & 7);        \
            double q = root[at];                                \
            r += q * q;                                         \
            g += mean[at];                                      \
        }                                                       \
        inverses[k] = r;                                        \
        means[k] = g;                                           \
    }

    SUM_AFRESH
    for (i64 t = t0; t <= t1; t++) {
        // Which arms are still in, and which of them is wanted: the widest.
        double highest = NOTHING;
        for (i64 k = 0; k < K; k++) width[k] = sqrt(inverses[k] * scale);
        for (i64 k = 0; k < K; k++) {
            double lower = means[k] * each - width[k];
            lower = active[k] ? lower : NOTHING;
            highest = lower > highest ? lower : highest;
        }
        i64 wanted = 0, left = 0;
        double widest = -1;
        for (i64 k = 0; k < K; k++)
            if (active[k]) {
                if (means[k] * each + width[k] < highest)
                    active[k] = 0;
                else {
                    left++;
                    if (width[k] > widest) {
                        widest = width[k];
                        wanted = k;
                    }
                }
            }
        if (left == 1) {
            last = t - 1;
            break;
        }
        // From whom: the agent who has pulled it least.
        u64 fewest = ~0ULL;
        i64 asked = 0;
        for (i64 m = 0; m < M; m++) {
            u64 n = count[(m >> 3) * K * 8 + wanted * 8 + (m & 7)] & PULLS;
            if (n < fewest) {
                fewest = n;
                asked = m;
            }
        }

        doubles s = _mm512_set1_pd(s_table[t]);
        words step = splat((u64)t * PHI);
        i64 v = 0;
#define PICK(n)                                                                                              \
    for (; v + n <= vectors; v += n) {                                                                       \
        doubles best[n];                                                                                     \
        words own[n];                                                                                        \
        const double *mean_v = mean + v * K * 8, *root_v = root + v * K * 8;                                 \
        LARGEST(n, best, own, mean_v, root_v, K, s)                                                          \
        EACH(g, n) {                                                                                         \
            _mm512_storeu_si512(arm + (v + g) * 8, own[g]);                                                  \
            _mm512_storeu_si512(u + (v + g) * 8,                                                             \
                                mix(_mm512_add_epi64(_mm512_loadu_si512(key + (v + g) * 8), step)));         \
        }                                                                                                    \
    }
        PICK(5)
        PICK(3)
        PICK(1)
        arm[asked] = wanted;
        paid[wanted * M + asked]++;

        for (i64 m = 0; m < M; m++) {
            i64 k = arm[m], at = (m >> 3) * K * 8 + k * 8 + (m & 7);
            u64 c = count[at] + 1 + ((u64)(u[m] < threshold[at]) << 32);
            count[at] = c;
            double q = root_table[c & PULLS], old_q = root[at], old_mean = mean[at];
            double new_mean = (double)(i64)(c >> 32) * (q * q);
            root[at] = q;
            mean[at] = new_mean;
            inverses[k] += q * q - old_q * old_q;
            means[k] += new_mean - old_mean;
        }
        if ((t & 1023) == 0) {
            SUM_AFRESH
        }
    }
    return last;
}

#ifdef __cplusplus
}
#endif
