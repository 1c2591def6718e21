// The AVX-512 instructions that limit.c uses, in the compiler's own vector types: clang splits the same 512-bit vectors
// for a machine that has only AVX2. (gcc makes slow code of it.) A mask is a vector of 0 and −1.
#include <string.h>

#define VECTOR __attribute__((vector_size(64)))
#define OPERATION static inline __attribute__((always_inline))
typedef double doubles VECTOR;
typedef i64 words VECTOR;
typedef u64 unsigned_words VECTOR;
typedef words mask;

#define _CMP_GT_OQ 1
#define _CMP_GE_OQ 2
#define ALL_LANES _mm512_set1_epi64(-1)
#define NO_LANES _mm512_setzero_si512()
#define lane_in(m, lane) ((m)[lane] & 1)

OPERATION doubles _mm512_set1_pd(double x) { return (doubles){x, x, x, x, x, x, x, x}; }
OPERATION words _mm512_set1_epi64(i64 x) { return (words){x, x, x, x, x, x, x, x}; }
OPERATION words _mm512_setzero_si512() { return (words){}; }
OPERATION doubles _mm512_setzero_pd() { return (doubles){}; }

OPERATION doubles _mm512_loadu_pd(const void *from) {
    doubles x;
    memcpy(&x, from, 64);
    return x;
}
OPERATION words _mm512_loadu_si512(const void *from) {
    words x;
    memcpy(&x, from, 64);
    return x;
}
OPERATION void _mm512_storeu_pd(void *to, doubles x) { memcpy(to, &x, 64); }
OPERATION void _mm512_storeu_si512(void *to, words x) { memcpy(to, &x, 64); }

OPERATION doubles _mm512_add_pd(doubles a, doubles b) { return a + b; }
OPERATION doubles _mm512_sub_pd(doubles a, doubles b) { return a - b; }
OPERATION doubles _mm512_mul_pd(doubles a, doubles b) { return a * b; }
OPERATION doubles _mm512_fmadd_pd(doubles a, doubles b, doubles c) { return a * b + c; }
OPERATION doubles _mm512_max_pd(doubles a, doubles b) { return a > b ? a : b; }
OPERATION doubles _mm512_sqrt_pd(doubles a) {
    doubles r;
    for (int j = 0; j < 8; j++) r[j] = __builtin_sqrt(a[j]);
    return r;
}

OPERATION words _mm512_add_epi64(words a, words b) { return (words)((unsigned_words)a + (unsigned_words)b); }
OPERATION words _mm512_mullo_epi64(words a, words b) { return (words)((unsigned_words)a * (unsigned_words)b); }
OPERATION words _mm512_xor_si512(words a, words b) { return a ^ b; }
OPERATION words _mm512_srli_epi64(words a, int n) { return (words)((unsigned_words)a >> n); }

OPERATION mask _mm512_cmp_pd_mask(doubles a, doubles b, int how) {
    return how == _CMP_GT_OQ ? (mask)(a > b) : (mask)(a >= b);
}
OPERATION mask _mm512_mask_cmp_pd_mask(mask m, doubles a, doubles b, int how) {
    return m & _mm512_cmp_pd_mask(a, b, how);
}
OPERATION mask _mm512_cmplt_epu64_mask(words a, words b) { return (mask)((unsigned_words)a < (unsigned_words)b); }
OPERATION mask _mm512_cmplt_epi64_mask(words a, words b) { return (mask)(a < b); }
OPERATION bool is_full(mask m) {
    i64 all = -1;
    for (int j = 0; j < 8; j++) all &= m[j];
    return all;
}

OPERATION doubles _mm512_mask_mov_pd(doubles a, mask m, doubles b) { return m ? b : a; }
OPERATION words _mm512_mask_mov_epi64(words a, mask m, words b) { return m ? b : a; }
OPERATION doubles _mm512_mask_add_pd(doubles s, mask m, doubles a, doubles b) { return m ? a + b : s; }
OPERATION doubles _mm512_mask_max_pd(doubles s, mask m, doubles a, doubles b) { return m ? (a > b ? a : b) : s; }
OPERATION doubles _mm512_i64gather_pd(words at, const double *from, int) {
    doubles r;
    for (int j = 0; j < 8; j++) r[j] = from[at[j]];
    return r;
}
